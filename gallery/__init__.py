"""The gallery: designs that look right, each with the schedule that breaks it and a version that no schedule breaks."""
