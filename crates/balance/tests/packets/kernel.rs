//! The program that is attached, with a clock that the tests set.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::LazyLock;
use std::time::Duration;

use fathom_balance::native::{BALANCE_BUCKET_SLOTS, balance_epoch};
use fathom_measure::bytes::read_prefix;
use libbpf_rs::{RingBuffer, RingBufferBuilder};
use nix::sched::sched_getcpu;

use crate::balancer::{Balancer, Counts, Size};
use crate::compile::compile;
pub(crate) use crate::compile::obstacle;

/// Of the table: few, so that tests fill it.
pub(crate) const PLACES: u32 = 256;

/// When fixtures begin, ns: the table's clock is well above 0.
const START: u64 = 1_000_000_000_000;

/// The object, compiled once for all tests.
static OBJECT: LazyLock<Vec<u8>> = LazyLock::new(|| compile("packets/balance.bpf.c"));

/// A balancer whose time the tests set, and its ring of epochs.
pub(crate) struct Kernel {
    pub(crate) balancer: Balancer,
    epochs: RingBuffer<'static>,
    told: Rc<RefCell<Vec<balance_epoch>>>,
    now: u64,
    /// What the program took, and for how many packets.
    pub(crate) spent: Duration,
    pub(crate) packets: u32,
}

impl Kernel {
    pub(crate) fn load() -> Self {
        // Programs have things at hand for each CPU.
        fathom_lab::stay_on(sched_getcpu().unwrap()).unwrap();
        let size = Size {
            buckets: PLACES / BALANCE_BUCKET_SLOTS,
            is_measuring: true,
            epochs: 1 << 20,
        };
        let balancer = Balancer::load(&OBJECT, size);
        let told = Rc::new(RefCell::new(Vec::new()));
        let inbox = Rc::clone(&told);
        let mut builder = RingBufferBuilder::new();
        let ring = balancer.handle("balance_epochs");
        builder
            .add(&ring, move |event| {
                inbox.borrow_mut().push(read_prefix(event).unwrap().0);
                0
            })
            .unwrap();
        Self {
            epochs: builder.build().unwrap(),
            balancer,
            told,
            now: 0,
            spent: Duration::ZERO,
            packets: 0,
        }
    }

    /// Nothing has happened yet.
    pub(crate) fn reset(&mut self) {
        self.balancer.forget();
        self.balancer.restore();
        self.now = START;
        self.wait(0);
        self.epochs();
    }

    pub(crate) fn wait(&mut self, seconds: u64) {
        self.wait_ns(seconds * 1_000_000_000);
    }

    pub(crate) fn wait_ns(&mut self, ns: u64) {
        self.now += ns;
        let now = self.now.to_ne_bytes();
        self.balancer
            .put(".data.test_now", &0_u32.to_ne_bytes(), &now);
    }

    /// The epochs that were told of since the last call.
    pub(crate) fn epochs(&self) -> Vec<balance_epoch> {
        self.epochs.consume().unwrap();
        self.told.take()
    }

    /// Runs the program over a frame: its verdict, the frame, and what was counted.
    pub(crate) fn run(&mut self, frame: &[u8]) -> (u32, Vec<u8>, Counts) {
        let before = self.balancer.counters();
        let run = self.balancer.run("balance", frame, 1);
        self.spent += run.duration;
        self.packets += 1;
        (run.verdict, run.frame, self.balancer.counted_since(&before))
    }
}
