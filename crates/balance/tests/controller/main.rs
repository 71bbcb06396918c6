//! The controller against simulated servers.

mod scenarios;
mod simulation;
