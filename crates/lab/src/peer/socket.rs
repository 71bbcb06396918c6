//! Sockets of the kernel that a script needs and the standard library does not open.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, socket};

/// The queue of what is to be sent, of `enum` in `linux/tcp.h`.
const SEND_QUEUE: libc::c_int = 2;

/// Starts to connect the thread's namespace to `address`; the stream does not block.
/// `initial_sequence` is set as for the restoring of checkpointed processes (`TCP_REPAIR`): the
/// kernel takes a random number only where there is none.
pub(super) fn connect(address: SocketAddr, initial_sequence: Option<u32>) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket(family, SockType::Stream, flags, None)?;
    if let Some(sequence) = initial_sequence {
        set_option(&socket, libc::TCP_REPAIR, 1)?;
        set_option(&socket, libc::TCP_REPAIR_QUEUE, SEND_QUEUE)?;
        set_option(&socket, libc::TCP_QUEUE_SEQ, sequence.cast_signed())?;
        set_option(&socket, libc::TCP_REPAIR, 0)?;
    }
    match nix::sys::socket::connect(socket.as_raw_fd(), &SockaddrStorage::from(address)) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(TcpStream::from(socket)),
        Err(error) => Err(error.into()),
    }
}

#[expect(unsafe_code, reason = "the options for repair have no safe wrapper")]
fn set_option(socket: &OwnedFd, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let length = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the kernel reads one integer, which outlives the call.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            option,
            (&raw const value).cast(),
            length,
        )
    };
    Errno::result(status)?;
    Ok(())
}
