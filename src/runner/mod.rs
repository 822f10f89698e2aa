//! One turn's order, and the life around it.
