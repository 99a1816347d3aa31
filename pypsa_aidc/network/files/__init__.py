"""Networks in files: exchange, frozen copies, MATPOWER cases."""
