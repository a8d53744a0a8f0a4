//! Real processes that really die, hang and flood; the acceptance checks; the figures.
