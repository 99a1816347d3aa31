"""What a site costs, and what one more of anything is worth."""
