//! Ten thousand processes: what an event costs, and that nothing cascades.
