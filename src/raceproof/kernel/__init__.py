"""What every primitive is built from: statements, programs and their runners, quoting, answers, events and errors."""
