//! The programs that are attached, run by the kernel over the packets.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::LazyLock;

use fathom_measure::bytes::bytes_of;
use libbpf_rs::{
    MapCore, MapFlags, MapHandle, Object, ObjectBuilder, ProgramInput, RingBufferBuilder,
    TC_EGRESS, TcHookBuilder,
};

use crate::compile::compile;
use crate::device::Device;
use crate::fixtures::{Fixture, Step};
use crate::native::{BEGIN_NS, MS, config};
use crate::told;
use crate::wire::{Family, describe, time_exceeded};

/// The object, compiled once for all tests.
static OBJECT: LazyLock<Vec<u8>> = LazyLock::new(|| compile("hops/hops.bpf.c"));
/// Places of fields in `struct __sk_buff`.
const MARK: usize = 8;
const INTERFACE: usize = 40;
const CONTROL_BLOCK: usize = 48;
const CONTEXT_BYTES: usize = 68;
/// As `own_probe.bpf.h` has them.
const NOTE: [u32; 2] = [0x9f3c_6a71, 0xd582_0be4];
const SHOT: u32 = 2;
const UNSPECIFIED: u32 = u32::MAX;

struct Kernel<'a> {
    object: &'a Object,
    device: &'a Device,
    clock: MapHandle,
}

impl Kernel<'_> {
    /// Runs a program over a frame. Returns what it says.
    fn run(&self, program: &str, ms: u64, frame: &[u8], mark: u32, note: [u32; 2]) -> u32 {
        let now = BEGIN_NS + ms * MS;
        self.clock
            .update(&0_u32.to_ne_bytes(), &now.to_ne_bytes(), MapFlags::ANY)
            .unwrap();
        let mut context = [0; CONTEXT_BYTES];
        let mut put = |at: usize, value: u32| {
            context[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        };
        put(MARK, mark);
        put(INTERFACE, self.device.near.cast_unsigned());
        put(CONTROL_BLOCK, note[0]);
        put(CONTROL_BLOCK + 4, note[1]);
        let mut programs = self.object.progs_mut();
        let program = programs
            .find(|own| own.name() == OsStr::new(program))
            .unwrap();
        let input = ProgramInput {
            context_in: Some(&mut context),
            data_in: Some(frame),
            ..ProgramInput::default()
        };
        program.test_run(input).unwrap().return_value
    }
}

fn map(object: &Object, name: &str) -> MapHandle {
    let mut maps = object.maps();
    MapHandle::try_from(&maps.find(|map| map.name() == OsStr::new(name)).unwrap()).unwrap()
}

fn load() -> Object {
    let mut object = ObjectBuilder::default().open_memory(&OBJECT).unwrap();
    for mut program in object.progs_mut() {
        let wanted = ["ethernet_egress", "ethernet_ingress", "silent_flow"];
        let is_wanted = wanted.iter().any(|name| program.name() == OsStr::new(name));
        program.set_autoload(is_wanted);
    }
    for mut map in object.maps_mut() {
        if map.name() == OsStr::new(".rodata.hops_config") {
            let config = config();
            let bytes = bytes_of(&config);
            map.initial_value_mut().unwrap()[..bytes.len()].copy_from_slice(bytes);
        }
    }
    object.load().unwrap()
}

/// What the programs do and say.
pub(crate) fn run(device: &Device, fixture: &Fixture, family: Family) -> Vec<String> {
    let object = load();
    let egress = object.progs_mut();
    let mut egress = egress.filter(|own| own.name() == OsStr::new("ethernet_egress"));
    let egress = egress.next().unwrap();
    let mut hook = TcHookBuilder::new(egress.as_fd());
    let hook = hook
        .ifindex(device.near)
        .replace(true)
        .handle(1)
        .priority(1);
    let mut hook = hook.hook(TC_EGRESS);
    hook.create().unwrap();
    let mut hook = hook.attach().unwrap();
    let kernel = Kernel {
        object: &object,
        device,
        clock: map(&object, ".data.test_now"),
    };
    let told = follow(&kernel, fixture, family);
    hook.detach().unwrap();
    hook.destroy().unwrap();
    told
}

fn follow(kernel: &Kernel<'_>, fixture: &Fixture, family: Family) -> Vec<String> {
    let events: Rc<RefCell<Vec<Vec<u8>>>> = Rc::default();
    let inbox = Rc::clone(&events);
    let ring = map(kernel.object, "hops_events");
    let mut builder = RingBufferBuilder::new();
    let put = move |event: &[u8]| {
        inbox.borrow_mut().push(event.to_vec());
        0
    };
    builder.add(&ring, put).unwrap();
    let ring = builder.build().unwrap();
    let (mut told, mut probes, mut last) = (Vec::new(), Vec::<Vec<u8>>::new(), Vec::new());
    kernel.device.caught();
    for step in fixture.steps {
        let mut is_passed = false;
        match *step {
            Step::Leaves(ms, packet) => {
                last = packet.frame(family, false);
                kernel.run("ethernet_egress", ms, &last, 0, [0; 2]);
            }
            Step::Noted(ms, packet) => {
                let frame = packet.frame(family, false);
                kernel.run("ethernet_egress", ms, &frame, 0, NOTE);
            }
            Step::Arrives(ms, packet) => {
                let frame = packet.frame(family, true);
                let said = kernel.run("ethernet_ingress", ms, &frame, 0, [0; 2]);
                assert_eq!(said, UNSPECIFIED);
            }
            Step::Answers(ms, number) => {
                let answer = time_exceeded(family, &probes[number as usize - 1]);
                let said = kernel.run("ethernet_ingress", ms, &answer, 0, [0; 2]);
                assert_eq!(said, SHOT, "the answer is kept from the host");
            }
            Step::Tells(ms) => {
                let answer = time_exceeded(family, &last);
                is_passed = kernel.run("ethernet_ingress", ms, &answer, 0, [0; 2]) == UNSPECIFIED;
            }
            Step::Silent(ms) => {
                kernel.run("silent_flow", ms, &[0; 128], 1, [0; 2]);
            }
        }
        ring.consume().unwrap();
        told.extend(events.take().iter().filter_map(|bytes| told::event(bytes)));
        told.extend(is_passed.then(|| "passed".to_owned()));
        for probe in kernel.device.caught() {
            told.push(describe(&probe, probes.len() as u32 + 1));
            probes.push(probe);
        }
    }
    told
}
