"""What our templates need beside what their views give them."""
