//! The programs that are attached, run by the kernel over the frames (`BPF_PROG_TEST_RUN`), with a clock that the test sets.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::sync::LazyLock;

use libbpf_rs::{
    MapCore, MapFlags, MapHandle, Object, ObjectBuilder, ProgramInput, RingBuffer,
    RingBufferBuilder,
};

use crate::native::{self, Epoch, HANDSHAKES, response_config, response_flow};

/// The object, compiled once for all tests.
static OBJECT: LazyLock<Vec<u8>> = LazyLock::new(compile);

fn compile() -> Vec<u8> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/responses/responses.bpf.c");
    let name = format!("responses.{}.bpf.o", std::process::id());
    let object = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    libbpf_cargo::SkeletonBuilder::new()
        .source(source)
        .obj(&object)
        .clang_args([
            &format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH),
            "-mcpu=v3",
            "-Wno-unused-function",
        ])
        .build()
        .unwrap();
    let bytes = std::fs::read(&object).unwrap();
    std::fs::remove_file(&object).unwrap();
    bytes
}

/// Why this process cannot load programs, if it cannot.
pub(crate) fn obstacle() -> Option<&'static str> {
    let id = Command::new("id").arg("-u").output().unwrap().stdout;
    (id.trim_ascii() != b"0").then_some("running BPF programs needs root")
}

/// A program, loaded for one configuration.
pub(crate) struct Kernel {
    object: Object,
    program: &'static str,
    estimator: u8,
    clock: MapHandle,
    ring: RingBuffer<'static>,
    epochs: Rc<RefCell<Vec<Vec<u8>>>>,
}

impl Kernel {
    pub(crate) fn load(program: &'static str, config: &response_config) -> Self {
        let mut object = ObjectBuilder::default().open_memory(&OBJECT).unwrap();
        for mut own in object.progs_mut() {
            let is_wanted = own.name() == OsStr::new(program);
            own.set_autoload(is_wanted);
        }
        let value_size = size_of::<response_flow>() + native::gaps_size(config.estimator);
        for mut map in object.maps_mut() {
            match map.name().to_str().unwrap() {
                "response_flows" => map.set_value_size(value_size as u32).unwrap(),
                "response_handshakes" => map.set_max_entries(HANDSHAKES).unwrap(),
                ".rodata.response_config" => {
                    let bytes = bytes_of(config);
                    map.initial_value_mut().unwrap()[..bytes.len()].copy_from_slice(bytes);
                }
                _ => {}
            }
        }
        let object = object.load().unwrap();
        let epochs = Rc::new(RefCell::new(Vec::new()));
        let inbox = Rc::clone(&epochs);
        let mut builder = RingBufferBuilder::new();
        let ring = map(&object, "response_events");
        builder
            .add(&ring, move |event| {
                inbox.borrow_mut().push(event.to_vec());
                0
            })
            .unwrap();
        let ring = builder.build().unwrap();
        Self {
            clock: map(&object, ".data.test_now"),
            object,
            program,
            estimator: config.estimator,
            ring,
            epochs,
        }
    }

    /// Runs the program over the packets, with nothing seen before.
    pub(crate) fn run(&mut self, packets: &[(u64, Vec<u8>)]) -> Vec<Epoch> {
        let flows = map(&self.object, "response_flows");
        for key in flows.keys().collect::<Vec<_>>() {
            flows.delete(&key).unwrap();
        }
        let places = map(&self.object, "response_handshakes");
        for place in 0..HANDSHAKES {
            places
                .update(&place.to_ne_bytes(), &[0; 8], MapFlags::ANY)
                .unwrap();
        }
        for (now, frame) in packets {
            self.clock
                .update(&0_u32.to_ne_bytes(), &now.to_ne_bytes(), MapFlags::ANY)
                .unwrap();
            let mut programs = self.object.progs_mut();
            let mut own = programs.find(|own| own.name() == OsStr::new(self.program));
            let input = ProgramInput {
                data_in: Some(frame),
                ..ProgramInput::default()
            };
            own.as_mut().unwrap().test_run(input).unwrap();
        }
        self.ring.consume().unwrap();
        let epochs = self.epochs.take();
        let epochs = epochs
            .iter()
            .map(|bytes| native::epoch_of(bytes, self.estimator));
        epochs.collect()
    }
}

#[expect(unsafe_code, reason = "shares structs with the kernel")]
fn bytes_of(config: &response_config) -> &[u8] {
    // SAFETY: a struct of integers whose padding is explicit.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(config).cast(), size_of_val(config)) }
}

fn map(object: &Object, name: &str) -> MapHandle {
    let mut maps = object.maps();
    MapHandle::try_from(&maps.find(|map| map.name() == OsStr::new(name)).unwrap()).unwrap()
}
