//! Compiles the BPF programs of the benchmarks: the production programs, and what they are measured
//! against.

use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-changed=../crates/measure/bpf");
    println!("cargo::rerun-if-changed=../crates/measure/src");
    println!("cargo::rerun-if-changed=../crates/balance/src/bpf");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    // The kernel's headers lie in a folder of the architecture, where clang for BPF does not look.
    let machine = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets CARGO_CFG_TARGET_ARCH");
    for name in [
        "kernel",
        "least",
        "hops",
        "departures",
        "response",
        "balance",
    ] {
        let source = format!("bpf/{name}.bpf.c");
        libbpf_cargo::SkeletonBuilder::new()
            .source(&source)
            .clang_args([
                format!("-I/usr/include/{machine}-linux-gnu").as_str(),
                "-mcpu=v3",
                "-Wno-unused-function",
            ])
            .obj(out.join(format!("{name}.bpf.o")))
            .build()
            .unwrap_or_else(|error| panic!("cannot compile {source}: {error:?}"));
    }
}
