"""From podcast feeds to matches that a person reviews: every stage claims its rows, and nothing is paid for twice."""
