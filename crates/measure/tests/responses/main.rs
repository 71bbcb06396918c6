//! The two ways of running the measurement of responses, over the same packets at the same times:
//! the C of user space, and the programs that the kernel runs. Both must tell of the same epochs,
//! byte by byte.
#![cfg(feature = "live")]
#![expect(clippy::unwrap_used, reason = "a test fails by it")]

#[path = "../common/compile.rs"]
mod compile;
mod kernel;
mod native;
#[path = "../common/test_run.rs"]
mod test_run;
mod traffic;

use fathom_measure::kernel::try_load;
use fathom_measure::response::{Estimator, Settings};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use kernel::Kernel;

#[test]
fn the_kernel_takes_the_programs_of_every_estimator() {
    if let Some(obstacle) = compile::obstacle() {
        println!("skipped: {obstacle}");
        return;
    }
    for estimator in Estimator::ALL {
        let settings = Settings {
            estimator,
            servers: vec!["10.0.0.0/8".parse().unwrap()],
            ports: vec![443],
            one_flow_in: 8,
            ..Settings::live()
        };
        if let Err(error) = try_load(&[&settings]) {
            let source = std::error::Error::source(&error).map(ToString::to_string);
            panic!("{estimator}: {error}: {}", source.unwrap_or_default());
        }
    }
}

#[test]
fn the_kernel_tells_of_the_same_epochs() {
    if let Some(obstacle) = compile::obstacle() {
        println!("skipped: {obstacle}");
        return;
    }
    for estimator in (0..).take(Estimator::ALL.len()) {
        let config = native::config(estimator);
        for program in ["ethernet_ingress", "xdp_ingress"] {
            let kernel = std::cell::RefCell::new(Kernel::load(program, &config));
            let mut runner = TestRunner::new(Config {
                cases: 64,
                source_file: Some(file!()),
                ..Config::default()
            });
            let epochs = std::cell::Cell::new(0);
            let compared = runner.run(&traffic::packets(), |packets| {
                let expected = native::run(&packets, &config);
                let own = kernel.borrow_mut().run(&packets);
                epochs.set(epochs.get() + own.len());
                prop_assert_eq!(own, expected);
                Ok(())
            });
            if let Err(error) = compared {
                panic!("{program}, estimator {estimator}: {error}");
            }
            assert!(
                epochs.get() > 500,
                "only {} epochs were compared",
                epochs.get()
            );
        }
    }
}
