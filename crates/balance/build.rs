//! Compiles the balancer's C for user space, and (feature `live`) its BPF programs.

fn main() {
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=../measure/bpf");
    println!("cargo::rerun-if-changed=../measure/src/response");
    cc::Build::new()
        .file("src/native/native.c")
        .warnings(true)
        .extra_warnings(true)
        // What is only for clang, and headers of packets.
        .flag("-Wno-unknown-pragmas")
        .flag("-Wno-address-of-packed-member")
        .opt_level(3)
        .compile("fathom_balance_native");
    #[cfg(feature = "live")]
    build_programs();
}

#[cfg(feature = "live")]
fn build_programs() {
    use std::{env, fs, path::PathBuf};

    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    // The kernel's headers lie in a folder of the architecture, where clang for BPF does not look:
    // in the second for another architecture than this machine's.
    let machine = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets CARGO_CFG_TARGET_ARCH");
    let headers = format!("-I/usr/include/{machine}-linux-gnu");
    let others = format!("-I/usr/{machine}-linux-gnu/include");
    // Programs name their sources, and are the same wherever these lie.
    let crates = env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let crates = crates.trim_end_matches("/balance");
    let names = format!("-ffile-prefix-map={crates}=crates");
    for name in ["balance", "checks"] {
        let object = out.join(format!("{name}.bpf.o"));
        libbpf_cargo::SkeletonBuilder::new()
            .source(format!("src/bpf/{name}.bpf.c"))
            .clang_args([
                headers.as_str(),
                others.as_str(),
                names.as_str(),
                "-mcpu=v3",
                "-Wall",
                "-Wextra",
                "-Wno-unused-function",
                "-Wno-unused-parameter",
            ])
            .obj(&object)
            .build()
            .unwrap_or_else(|error| panic!("cannot compile the balancer: {error:?}"));
        let bytes = fs::read(&object).expect("the object was just written");
        let compressed = zstd::encode_all(bytes.as_slice(), 19).expect("memory takes it");
        fs::write(object.with_extension("o.zst"), compressed).expect("there is room");
    }
}
