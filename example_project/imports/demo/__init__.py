"""What `manage.py demo` is made of: the processes it starts, the bar it draws, the result it checks."""
