//! The workloads.

use std::time::Duration;

use fathom_lab::traffic::loops::{Service, Shape, Workload};
use fathom_lab::{Direction, LinkConfig};

use super::Case;

const US: Duration = Duration::from_micros(1);
const MS: Duration = Duration::from_millis(1);

impl Case {
    /// Over wires.
    pub fn new(name: &'static str, shape: Shape, service: Service) -> Self {
        Self {
            name,
            workload: Workload::new(shape, service),
            lan: None,
            has_timestamps: true,
        }
    }

    fn with(mut self, change: impl FnOnce(&mut Workload)) -> Self {
        change(&mut self.workload);
        self
    }

    fn over(self, lan: LinkConfig) -> Self {
        Self {
            lan: Some(lan),
            ..self
        }
    }
}

fn wan() -> LinkConfig {
    LinkConfig::symmetric(5 * MS)
}

fn with_forward(forward: Direction) -> LinkConfig {
    LinkConfig {
        forward,
        ..LinkConfig::symmetric(100 * US)
    }
}

/// All workloads.
pub fn cases() -> Vec<Case> {
    let (one, four) = (Shape::Batch(1), Shape::Batch(4));
    let exponential = Service::Exponential(2 * MS);
    let bimodal = Service::Bimodal(MS, 8 * MS, 0.1);
    let sine = Service::Sine(3 * MS, 2 * MS, 2000 * MS);
    let big_response = |workload: &mut Workload| workload.response_bytes = 100_000;
    let big_request = |workload: &mut Workload| workload.request_bytes = 8_000;
    let pause = |every, length: Duration| {
        move |workload: &mut Workload| workload.pause = Some((every, length))
    };
    let serial = |workload: &mut Workload| workload.is_serial = true;
    let lossy = || with_forward(Direction::delayed(100 * US).loss(0.01));
    let reordering = || with_forward(Direction::delayed(100 * US).reordering(0.25, MS));
    let case = Case::new;
    vec![
        case("k1_const", one, Service::Constant(MS)),
        case("k1_small", one, Service::Constant(200 * US)),
        case("k1_uniform", one, Service::Uniform(500 * US, 3 * MS)),
        case("k1_exp", one, exponential),
        case("k1_lognormal", one, Service::Lognormal(MS, 1.0)),
        case("k1_bimodal", one, bimodal),
        case("k1_sine", one, sine),
        case("k1_step", one, Service::Step(MS, 4 * MS, 1000 * MS)),
        case("k1_big_response", one, exponential).with(big_response),
        case("k1_big_request", one, exponential).with(big_request),
        case("k1_idle_400", one, exponential).with(pause(50, 400 * MS)),
        case("k1_idle_50", one, exponential).with(pause(20, 50 * MS)),
        case("k1_many", one, exponential).with(|workload| workload.connections = 8),
        case("k4_batch_const", four, Service::Constant(2 * MS)),
        case("k4_batch_exp", four, exponential),
        case("k4_batch_serial", four, Service::Constant(MS)).with(serial),
        case("k4_batch_big_request", four, exponential).with(big_request),
        case("k16_batch_exp", Shape::Batch(16), exponential),
        case("k4_tree_exp", Shape::Tree(3), exponential),
        case("k4_tree_sine", Shape::Tree(3), sine),
        case("k4_window_exp", Shape::Window(4), exponential),
        case("k4_window_serial", Shape::Window(4), Service::Constant(MS)).with(serial),
        case(
            "k16_window_exp",
            Shape::Window(16),
            Service::Exponential(8 * MS),
        ),
        case("wan_k1_exp", one, exponential).over(wan()),
        case("wan_k1_bimodal", one, bimodal).over(wan()),
        case("wan_k1_big_response", one, exponential)
            .with(big_response)
            .over(wan()),
        case("wan_k1_idle_50", one, exponential)
            .with(pause(20, 50 * MS))
            .over(wan()),
        case("wan_k4_batch_exp", four, exponential).over(wan()),
        case("wan_k4_tree_exp", Shape::Tree(3), exponential).over(wan()),
        case("wan_k4_window_exp", Shape::Window(4), exponential).over(wan()),
        case("loss_k1_exp", one, exponential).over(lossy()),
        case("loss_k1_big_response", one, exponential)
            .with(big_response)
            .over(lossy()),
        case("loss_k4_batch_const", four, Service::Constant(2 * MS)).over(lossy()),
        case("loss_k4_tree_exp", Shape::Tree(3), exponential).over(lossy()),
        case("reordered_k1_exp", one, exponential).over(reordering()),
        case("reordered_k4_batch_exp", four, exponential).over(reordering()),
    ]
}

/// Clients that think before they ask again, with timestamps and without.
pub fn thinking_cases() -> Vec<Case> {
    let (one, four) = (Shape::Batch(1), Shape::Batch(4));
    let exponential = Service::Exponential(4 * MS);
    let case = |name, shape, think| {
        Case::new(name, shape, exponential).with(|workload| {
            workload.think = Some(think);
            workload.duration = Duration::from_secs(10);
        })
    };
    let without = |case: Case| Case {
        has_timestamps: false,
        ..case
    };
    vec![
        case("think_const_5", one, Service::Constant(5 * MS)),
        case("think_exp_1", one, Service::Exponential(MS)),
        case("think_exp_5", one, Service::Exponential(5 * MS)),
        case("think_lognormal_20", one, Service::Lognormal(20 * MS, 1.0)),
        case("think_lognormal_60", one, Service::Lognormal(60 * MS, 1.0)),
        case("think_k4_exp_5", four, Service::Exponential(5 * MS)),
        case("think_wan_exp_20", one, Service::Exponential(20 * MS)).over(wan()),
        without(case("bare_exp_5", one, Service::Exponential(5 * MS))),
        without(case(
            "bare_lognormal_20",
            one,
            Service::Lognormal(20 * MS, 1.0),
        )),
        without(case("bare_wan_exp_20", one, Service::Exponential(20 * MS)).over(wan())),
    ]
}
