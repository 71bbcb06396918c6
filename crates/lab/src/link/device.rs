//! TUN and TAP devices: the places where an emulated link takes packets out of the kernel and puts
//! them back.

use std::fs::File;
use std::io::{self, Read, Write};
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use nix::libc;

use crate::{Error, Namespace, Result};

/// Packets the kernel keeps for a device until the link reads them; beyond, it drops them unseen by
/// the truth record ([`Device::unread_drops`]).
const DEVICE_QUEUE_PACKETS: u32 = 10_000;

/// What a link carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layer {
    /// IP packets, over TUN devices.
    #[default]
    Ip,
    /// Ethernet frames, over TAP devices, so that VLAN tags and other protocols can pass; also ARP
    /// and neighbour discovery, unless the neighbours are permanent.
    Ethernet,
}

impl Layer {
    /// Bytes a frame may have before its network layer: none, or an Ethernet header with room for
    /// three VLAN tags or labels.
    pub(crate) fn overhead_bytes(self) -> usize {
        match self {
            Self::Ip => 0,
            Self::Ethernet => 14 + 3 * 4,
        }
    }
}

/// A device that exists as long as this value does.
#[derive(Debug)]
pub struct Device {
    file: File,
    namespace: Namespace,
    interface: String,
}

impl Device {
    /// Creates `interface` in `namespace` and sets it up with `mtu_bytes`.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn create(
        namespace: &Namespace,
        interface: &str,
        layer: Layer,
        mtu_bytes: u32,
    ) -> Result<Self> {
        let file = namespace
            .enter(|| open(interface, layer))?
            .map_err(|source| Error::Device {
                namespace: namespace.name().to_owned(),
                interface: interface.to_owned(),
                source,
            })?;
        namespace.run(&format!(
            "ip link set {interface} mtu {mtu_bytes} txqueuelen {DEVICE_QUEUE_PACKETS} up"
        ))?;
        Ok(Self {
            file,
            namespace: namespace.clone(),
            interface: interface.to_owned(),
        })
    }

    /// Takes the next packet out of the kernel; `None` when there is none now.
    ///
    /// # Errors
    /// When the device is gone.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.file).read(buffer) {
            Ok(length) => Ok(Some(length)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Packets the kernel dropped because nobody read them in time.
    pub(crate) fn unread_drops(&self) -> Result<u64> {
        let table = self
            .namespace
            .enter(|| std::fs::read_to_string("/proc/thread-self/net/dev"))?
            .map_err(|source| Error::runtime("read the device statistics", source))?;
        let counters = table.lines().find_map(|line| {
            let (name, counters) = line.split_once(':')?;
            (name.trim() == self.interface).then_some(counters)
        });
        // Eight counters of what was received, then bytes, packets, errors and drops of what was
        // sent.
        let drops = counters.and_then(|counters| counters.split_whitespace().nth(11)?.parse().ok());
        Ok(drops.unwrap_or_default())
    }

    /// Hands a packet to the kernel as received by the device.
    ///
    /// # Errors
    /// When the kernel takes it for no packet.
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        (&self.file).write(packet).map(drop)
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[expect(
    unsafe_code,
    reason = "TUNSETIFF has no safe wrapper, and ifreq is a C union"
)]
fn open(interface: &str, layer: Layer) -> io::Result<File> {
    let file = File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")?;
    if interface.is_empty() || interface.len() >= libc::IFNAMSIZ {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let kind = match layer {
        Layer::Ip => libc::IFF_TUN,
        Layer::Ethernet => libc::IFF_TAP,
    };
    // SAFETY: all zeroes is a valid ifreq: an empty name and an integer union.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (target, byte) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *target = libc::c_char::from_ne_bytes([byte]);
    }
    request.ifr_ifru.ifru_flags = (kind | libc::IFF_NO_PI) as i16;
    // SAFETY: the kernel reads and writes one ifreq, which outlives the call.
    let status = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if status < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file)
}
