"""The example application: it imports a CSV file as one background job for each of its rows."""
