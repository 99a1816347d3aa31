"""From trace tables to sufficient statistics: layouts, rows, spans, coverage and aggregation."""
