//! What profiles count of arriving segments: each file of `src/profile/vectors` is run natively and
//! by the kernel, and both must give what it expects.
#![cfg(feature = "live")]
#![expect(clippy::unwrap_used, reason = "a test fails by it")]

#[path = "../common/compile.rs"]
mod compile;

#[rustfmt::skip]
#[path = "../../src/native/bindings.rs"]
mod shared;
#[rustfmt::skip]
#[path = "../../src/profile/native/bindings.rs"]
mod bindings;

use std::path::Path;

use bindings::profile_disorder;
use fathom_measure::bytes::{bytes_of, read_prefix};
use libbpf_rs::{MapCore, MapFlags, ObjectBuilder, ProgramInput};

const ARRIVALS: [&str; 4] = ["in-order", "duplicate", "partial", "out-of-order"];

/// Start and end of the data, the byte that is expected, and what it is then.
type Segment = ([u32; 3], String);

struct Vector {
    name: String,
    segments: Vec<Segment>,
    /// What is counted in the end.
    expected: String,
}

impl Vector {
    /// Lines `EXPECTED START END ARRIVAL`, and one that begins with `=`.
    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let (mut segments, mut expected) = (Vec::new(), String::new());
        for line in text.lines().map(str::trim) {
            if let Some(line) = line.strip_prefix("= ") {
                line.clone_into(&mut expected);
            } else if !line.is_empty() && !line.starts_with('#') {
                let words: Vec<&str> = line.split_whitespace().collect();
                let number = |index: usize| words[index].parse::<u32>().unwrap();
                segments.push(([number(1), number(2), number(0)], words[3].to_owned()));
            }
        }
        Self {
            name: path.display().to_string(),
            segments,
            expected,
        }
    }

    fn all() -> Vec<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/profile/vectors");
        let files = std::fs::read_dir(folder).unwrap();
        let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        paths.retain(|path| path.extension().is_some_and(|end| end == "vector"));
        paths.sort();
        assert!(!paths.is_empty());
        paths.iter().map(|path| Self::read(path)).collect()
    }

    fn check(&self, arrivals: &[u32], disorder: &profile_disorder) {
        let arrivals: Vec<_> = arrivals
            .iter()
            .map(|arrival| ARRIVALS[*arrival as usize])
            .collect();
        let expected: Vec<_> = self.segments.iter().map(|(_, arrival)| arrival).collect();
        assert_eq!(arrivals, expected, "{}", self.name);
        assert_eq!(told(disorder), self.expected, "{}", self.name);
    }
}

fn told(all: &profile_disorder) -> String {
    format!(
        "duplicates {} {} partial {} {} out-of-order {} distances {} {} {} {}",
        all.duplicate_packets,
        all.duplicate_bytes,
        all.partial_duplicate_packets,
        all.partial_duplicate_bytes,
        all.out_of_order_bytes,
        all.distance_count,
        all.distance_sum,
        all.distance_squares,
        all.distance_max
    )
}

#[test]
fn natively() {
    for vector in Vector::all() {
        let mut disorder = profile_disorder::default();
        let take = |([start, end, expected], _): &Segment| {
            #[expect(unsafe_code, reason = "the C of the library")]
            // SAFETY: it writes to the struct, and keeps nothing.
            unsafe {
                bindings::fathom_profile_take(&raw mut disorder, *start, *end, *expected)
            }
        };
        let arrivals: Vec<u32> = vector.segments.iter().map(take).collect();
        vector.check(&arrivals, &disorder);
    }
}

#[test]
fn by_the_kernel() {
    if let Some(why) = compile::obstacle() {
        println!("skipped: {why}");
        return;
    }
    let object = compile::compile("disorder/disorder.bpf.c");
    let object = ObjectBuilder::default()
        .open_memory(&object)
        .unwrap()
        .load()
        .unwrap();
    let program = object.progs_mut().next().unwrap();
    let map = object.maps().find(|map| map.name() == "disorder").unwrap();
    for vector in Vector::all() {
        let key = 0_u32.to_ne_bytes();
        let nothing = profile_disorder::default();
        map.update(&key, bytes_of(&nothing), MapFlags::ANY).unwrap();
        let take = |([start, end, expected], _): &Segment| {
            let frame: Vec<u8> = [*start, *end, *expected, 0]
                .iter()
                .flat_map(|word| word.to_ne_bytes())
                .collect();
            let input = ProgramInput {
                data_in: Some(&frame),
                ..ProgramInput::default()
            };
            program.test_run(input).unwrap().return_value
        };
        let arrivals: Vec<u32> = vector.segments.iter().map(take).collect();
        let counted = map.lookup(&key, MapFlags::ANY).unwrap().unwrap();
        let (disorder, _) = read_prefix::<profile_disorder>(&counted).unwrap();
        vector.check(&arrivals, &disorder);
    }
}
