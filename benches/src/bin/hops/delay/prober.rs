//! The production program on the application's device, asked for a probe by the means that user
//! space has: the flow's turn is set to now.

use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::time::Duration;

use anyhow::{Context, ensure};
use fathom_benches::native::{
    HOPS_COUNT_PROBES_SENT, HOPS_FLOWS, hops_config, hops_flow, selection,
};
use fathom_benches::programs::Programs;
use fathom_lab::Worker;
use libbpf_rs::{MapCore, MapHandle, RingBufferBuilder, TC_EGRESS, TcHook, TcHookBuilder};
use nix::net::if_::if_nametoindex;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use crate::programs::{count, load};

const PROGRAM: &str = "ethernet_egress";
/// More than are asked for.
const BUDGET: u32 = 1_000_000;
/// The flow that is opened first, at the place of its number.
const FLOW: usize = 1;
const TABLE_BYTES: usize = HOPS_FLOWS as usize * size_of::<hops_flow>();
/// How often the reader of events looks whether to end.
const PATIENCE: Duration = Duration::from_millis(50);

/// It, attached.
pub(super) struct Prober {
    hook: TcHook,
    table: NonNull<c_void>,
    reader: Worker<libbpf_rs::Result<()>>,
    programs: Programs,
}

impl Prober {
    /// Attaches to an interface of this thread's namespace, which has a clsact qdisc: one TTL,
    /// whose turn comes once, and then when it is asked for.
    pub(super) fn attach(interface: &str) -> anyhow::Result<Self> {
        let config = hops_config {
            probes_per_second: BUDGET,
            probes_per_destination: BUDGET,
            interval: u32::MAX,
            first_ceiling_unsafe: 1,
            ..hops_config::default()
        };
        let programs = load(&[PROGRAM], &config, &selection::default())?;
        let table = share(&programs)?;
        let reader = read_events(&programs)?;
        let index = if_nametoindex(interface).context("find the interface")?;
        let mut hook = TcHookBuilder::new(programs.program(PROGRAM)?.as_fd())
            .ifindex(index.cast_signed())
            .replace(true)
            .handle(1)
            .priority(1)
            .hook(TC_EGRESS);
        hook.attach().context("attach the program")?;
        Ok(Self {
            hook,
            table,
            reader,
            programs,
        })
    }

    /// Has the next packet of the flow take its turn.
    #[expect(unsafe_code, reason = "writes what the kernel reads")]
    pub(super) fn ask(&self) {
        let flow = self.table.cast::<hops_flow>();
        // SAFETY: the entry is within the table; the kernel reads and writes whole words.
        unsafe {
            let flow = flow.add(FLOW).as_ptr();
            (&raw mut (*flow).turns[0].due).write_volatile(0);
            (&raw mut (*flow).due).write_volatile(0);
        }
    }

    /// Detaches, and says how many probes were sent.
    pub(super) fn finish(mut self) -> anyhow::Result<u64> {
        self.hook.detach().context("detach the program")?;
        #[expect(unsafe_code, reason = "memory shared with the kernel")]
        // SAFETY: it was mapped so long, and nothing refers to it any more.
        unsafe {
            munmap(self.table, TABLE_BYTES).context("give the table back")?;
        }
        self.reader.finish().context("read the events")?;
        count(&self.programs, HOPS_COUNT_PROBES_SENT)
    }
}

/// The table of flows, as user space sees it.
#[expect(unsafe_code, reason = "memory shared with the kernel")]
fn share(programs: &Programs) -> anyhow::Result<NonNull<c_void>> {
    let map = programs.map("hops_flows")?;
    ensure!(
        map.value_size() as usize == size_of::<hops_flow>(),
        "flows have another size"
    );
    let length = NonZeroUsize::new(TABLE_BYTES).context("the table is empty")?;
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: a new mapping, at an address that the kernel chooses.
    unsafe { mmap(None, length, access, MapFlags::MAP_SHARED, map.as_fd(), 0) }
        .context("share the table of flows")
}

/// As in `fathom hops`, somebody waits for events, and is woken.
fn read_events(programs: &Programs) -> anyhow::Result<Worker<libbpf_rs::Result<()>>> {
    let map = MapHandle::try_from(&programs.map("hops_events")?)?;
    let work = move |stop: &fathom_lab::Stop| {
        let mut builder = RingBufferBuilder::new();
        builder.add(&map, |_| 0)?;
        let ring = builder.build()?;
        while !stop.is_set() {
            ring.poll(PATIENCE)?;
        }
        Ok(())
    };
    Ok(Worker::start("events", work)?)
}
