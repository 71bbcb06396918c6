//! Compiles the algorithms for user space, and (feature `live`) the BPF programs with their skeleton.

fn main() {
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-changed=src");
    cc::Build::new()
        .file("src/native/native.c")
        .warnings(true)
        .extra_warnings(true)
        .opt_level(3)
        .compile("fathom_native");
    #[cfg(feature = "live")]
    build_programs();
}

#[cfg(feature = "live")]
fn build_programs() {
    use std::{env, path::PathBuf};

    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    // The kernel's headers lie in a folder of the architecture, where clang for BPF does not look.
    let machine = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets CARGO_CFG_TARGET_ARCH");
    let headers = format!("-I/usr/include/{machine}-linux-gnu");
    for (source, object) in [
        ("bpf/packet_path.bpf.c", "packet_path.bpf.o"),
        ("src/response/response.bpf.c", "response.bpf.o"),
        ("src/hops/hops.bpf.c", "hops.bpf.o"),
        ("src/profile/profile.bpf.c", "profile.bpf.o"),
        ("src/profile/dns/wire.bpf.c", "dns_wire.bpf.o"),
        ("src/profile/dns/lookup.bpf.c", "dns_lookup.bpf.o"),
    ] {
        libbpf_cargo::SkeletonBuilder::new()
            .source(source)
            .clang_args([
                headers.as_str(),
                "-mcpu=v3",
                "-Wall",
                "-Wextra",
                "-Wno-unused-function",
                "-Wno-unused-parameter",
            ])
            .obj(out.join(object))
            .build()
            .unwrap_or_else(|error| panic!("cannot compile {source}: {error:?}"));
    }
}
