"""What a network stores of its loads: JSON in string columns, and series over snapshots."""
