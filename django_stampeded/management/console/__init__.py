"""What `manage.py stampeded` can do, a module for reading, one for acting and one for printing. The parser is the command's."""
