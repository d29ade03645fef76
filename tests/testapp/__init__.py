"""An app whose tasks do what tests need done."""
