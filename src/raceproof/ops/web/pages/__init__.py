"""The pages, one view for each URL: each reads what it shows and hands it to its template."""
