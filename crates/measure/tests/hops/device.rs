//! A pair of devices in a network namespace of this thread's own: what leaves by one is caught at
//! the other.

use std::ffi::CString;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;

const NEAR: &str = "near0";
const FAR: &str = "far0";

pub(crate) struct Device {
    /// The number of the one that packets leave by.
    pub(crate) near: i32,
    far: OwnedFd,
}

impl Device {
    #[expect(
        unsafe_code,
        reason = "std knows neither namespaces nor packet sockets"
    )]
    pub(crate) fn new() -> Self {
        // SAFETY: only this thread is moved.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
        // Or the kernel sends packets of its own.
        std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
        for command in [
            format!("link add {NEAR} type veth peer name {FAR}"),
            format!("link set {NEAR} up"),
            format!("link set {FAR} up"),
        ] {
            let status = Command::new("ip").args(command.split(' ')).status();
            assert!(status.unwrap().success(), "ip {command}");
        }
        let [near, far] = [NEAR, FAR].map(|name| {
            let name = CString::new(name).unwrap();
            // SAFETY: the name ends with a zero and outlives the call.
            let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
            i32::try_from(index).unwrap()
        });
        let every = u16::to_be(libc::ETH_P_ALL as u16);
        // SAFETY: the descriptor is owned once; the address says its size and outlives the call.
        let far = unsafe {
            let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
            let socket = libc::socket(libc::AF_PACKET, kind, i32::from(every));
            assert!(socket >= 0);
            let socket = OwnedFd::from_raw_fd(socket);
            let mut address: libc::sockaddr_ll = std::mem::zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = every;
            address.sll_ifindex = far;
            let size = size_of_val(&address) as u32;
            let place = (&raw const address).cast();
            assert_eq!(libc::bind(socket.as_raw_fd(), place, size), 0);
            socket
        };
        Self { near, far }
    }

    /// What has arrived since the last call: the calls that send return when it has.
    #[expect(unsafe_code, reason = "reads from a packet socket")]
    pub(crate) fn caught(&self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        loop {
            let mut frame = vec![0; 2048];
            // SAFETY: the buffer has so much room.
            let length = unsafe {
                libc::recv(
                    self.far.as_raw_fd(),
                    frame.as_mut_ptr().cast(),
                    frame.len(),
                    0,
                )
            };
            let Ok(length) = usize::try_from(length) else {
                return frames;
            };
            frame.truncate(length);
            frames.push(frame);
        }
    }
}
