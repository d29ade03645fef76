"""Makes the pictures of the documentation: `make screenshots`."""
