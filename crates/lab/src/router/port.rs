//! A packet socket on one interface of a router.

use std::io::{self, IoSliceMut};
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{LinkAddr, MsgFlags, recvmsg};

use super::Attachment;
use super::packet::is_v6;
use crate::tap;

/// Where packets come in and go out.
#[derive(Debug)]
pub(super) struct Port {
    socket: OwnedFd,
    index: u32,
    neighbour: Option<[u8; 6]>,
}

impl Port {
    /// Opens the interface in the namespace of the calling thread.
    pub(super) fn open(attachment: &Attachment) -> io::Result<Self> {
        Ok(Self {
            socket: tap::open(&attachment.interface)?,
            index: nix::net::if_::if_nametoindex(attachment.interface.as_str())?,
            neighbour: attachment.neighbour,
        })
    }

    /// Takes the next packet that came in, if there is one now.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            let mut slices = [IoSliceMut::new(buffer)];
            let descriptor = self.socket.as_raw_fd();
            let flags = MsgFlags::empty();
            match recvmsg::<LinkAddr>(descriptor, &mut slices, None, flags) {
                Ok(message) => {
                    let kind = message.address.map(|address| address.pkttype());
                    if kind != Some(libc::PACKET_OUTGOING) {
                        return Ok(Some(message.bytes));
                    }
                }
                Err(Errno::EAGAIN) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    #[expect(
        unsafe_code,
        reason = "nix does not make the addresses of packet sockets"
    )]
    pub(super) fn send(&self, packet: &[u8]) -> io::Result<()> {
        let protocol = if is_v6(packet) {
            libc::ETH_P_IPV6 as u16
        } else {
            libc::ETH_P_IP as u16
        };
        // SAFETY: all zeroes is a valid address.
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol.to_be();
        address.sll_ifindex = self.index.cast_signed();
        if let Some(neighbour) = self.neighbour {
            address.sll_halen = neighbour.len() as u8;
            address.sll_addr[..neighbour.len()].copy_from_slice(&neighbour);
        }
        // SAFETY: the kernel reads one packet and one address, which outlive the call.
        let status = unsafe {
            libc::sendto(
                self.socket.as_raw_fd(),
                packet.as_ptr().cast(),
                packet.len(),
                libc::MSG_DONTWAIT,
                (&raw const address).cast(),
                size_of_val(&address) as u32,
            )
        };
        Errno::result(status)?;
        Ok(())
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
