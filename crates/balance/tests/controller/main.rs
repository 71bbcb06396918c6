//! The controller against simulated servers.

mod random;
mod scenarios;
mod simulation;
