//! Questions to the kernel about links, routes and neighbours, and the messages and attributes that
//! it answers with (`rtnetlink(7)`). Libraries that know every attribute make half a megabyte of
//! the program; of these, a dozen are looked at.

use std::io::{Error, ErrorKind};

use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

/// Room for a datagram of the kernel: it never sends longer ones.
const LONGEST: usize = 64 << 10;
/// Bytes of `struct nlmsghdr`.
const HEADER: usize = 16;
/// Bytes of `struct nlattr`.
const ATTRIBUTE: usize = 4;
/// Flags of questions: for one answer, and for all.
const ONE: u16 = libc::NLM_F_REQUEST as u16;
const ALL: u16 = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
/// The kind of an attribute without its flags (`NLA_TYPE_MASK`, which is negative in `libc`).
const ATTRIBUTE_KIND: u16 = 0x3fff;

/// Asks the kernel, in the network namespace in which it was opened.
pub struct Questions(Socket);

impl Questions {
    /// Opens what is needed to ask.
    ///
    /// # Errors
    /// When the system refuses a socket.
    pub fn open() -> Result<Self, Error> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self(socket))
    }

    /// Asks for one: sends a message of this kind (`RTM_GET…`) with what follows its header, and
    /// hands on the kind of the answer, and what follows the answer's header.
    ///
    /// # Errors
    /// When the kernel does not answer, or with an error.
    pub fn ask(
        &mut self,
        kind: u16,
        body: &[u8],
        each: impl FnMut(u16, &[u8]),
    ) -> Result<(), Error> {
        self.send(kind, ONE, body)?;
        self.receive(each).map(|_| ())
    }

    /// The same for all that there are.
    ///
    /// # Errors
    /// When the kernel does not answer, or with an error.
    pub fn ask_for_all(
        &mut self,
        kind: u16,
        body: &[u8],
        mut each: impl FnMut(u16, &[u8]),
    ) -> Result<(), Error> {
        self.send(kind, ALL, body)?;
        while !self.receive(&mut each)? {}
        Ok(())
    }

    fn send(&mut self, kind: u16, flags: u16, body: &[u8]) -> Result<(), Error> {
        let mut bytes = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        // The kernel gives numbers to those that have none.
        bytes.resize(HEADER, 0);
        bytes.extend(body);
        self.0.send(&bytes, 0).map(|_| ())
    }

    /// One datagram of answers; whether it was the last.
    fn receive(&mut self, mut each: impl FnMut(u16, &[u8])) -> Result<bool, Error> {
        let mut room = Vec::with_capacity(LONGEST);
        self.0.recv(&mut room, 0)?;
        for (kind, body) in messages(&room) {
            match i32::from(kind) {
                libc::NLMSG_DONE => return Ok(true),
                libc::NLMSG_ERROR => {
                    let code = u32_at(body, 0).ok_or(ErrorKind::InvalidData)?;
                    return match code.cast_signed() {
                        0 => Ok(true),
                        code => Err(Error::from_raw_os_error(code.abs())),
                    };
                }
                _ => each(kind, body),
            }
        }
        Ok(false)
    }
}

/// Tells what the kernel says unasked, to those that listen to a group.
pub(super) struct Listener(Socket);

impl Listener {
    /// Begins to listen to these groups (`RTNLGRP_…`).
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn open(groups: &[u32]) -> Result<Self, Error> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        for group in groups {
            socket.add_membership(*group)?;
        }
        socket.set_non_blocking(true)?;
        Ok(Self(socket))
    }

    /// The next datagram, if there is one.
    ///
    /// # Errors
    /// `WouldBlock` when there is none, `ENOBUFS` when some were lost, and when the system does not
    /// tell any more.
    pub(super) fn next(&self) -> Result<Vec<u8>, Error> {
        let mut room = Vec::with_capacity(LONGEST);
        self.0.recv(&mut room, 0)?;
        Ok(room)
    }
}

/// The messages of a datagram: of what kind each is, and what follows its header.
pub(super) fn messages(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = u32_at(rest, 0)? as usize;
        let kind = u16_at(rest, 4)?;
        let body = rest.get(HEADER..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, body))
    })
}

/// Attributes: of what kind each is, without its flags, and its value. Ends where they are cut off.
pub fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(rest, 0)?);
        let kind = u16_at(rest, 2)? & ATTRIBUTE_KIND;
        let value = rest.get(ATTRIBUTE..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// Adds an attribute to a question; its value is shorter than 64 KiB.
pub fn add_attribute(question: &mut Vec<u8>, kind: u16, value: &[u8]) {
    question.extend(((ATTRIBUTE + value.len()) as u16).to_ne_bytes());
    question.extend(kind.to_ne_bytes());
    question.extend(value);
    question.resize(question.len().next_multiple_of(4), 0);
}

/// A number of the kernel's in its byte order, if it is there.
pub fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes
        .get(offset..)?
        .first_chunk()
        .map(|bytes| u16::from_ne_bytes(*bytes))
}

/// A number of the kernel's in its byte order, if it is there.
pub fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes
        .get(offset..)?
        .first_chunk()
        .map(|bytes| u32::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_error_of_the_kernel_is_one() {
        let mut questions = Questions::open().unwrap();
        let mut question = vec![0; 16];
        question[4..8].copy_from_slice(&i32::MAX.to_ne_bytes());
        let asked = questions.ask(libc::RTM_GETLINK, &question, |_, _| {});
        assert!(asked.is_err());
        // What was asked before does not answer what is asked now.
        question[4..8].copy_from_slice(&1_i32.to_ne_bytes());
        let mut found = None;
        let asked = questions.ask(libc::RTM_GETLINK, &question, |_, body| {
            found = u32_at(body, 4);
        });
        asked.unwrap();
        assert_eq!(found, Some(1));
    }

    proptest! {
        #[test]
        fn attributes_come_back(all in prop::collection::vec((0..0x3fff_u16, any::<Vec<u8>>()), 0..9)) {
            let mut bytes = Vec::new();
            for (kind, value) in &all {
                add_attribute(&mut bytes, *kind, value);
            }
            let back: Vec<_> = attributes(&bytes).map(|(kind, value)| (kind, value.to_vec())).collect();
            prop_assert_eq!(all, back);
        }

        #[test]
        fn any_bytes_are_read(bytes: Vec<u8>) {
            for (_, body) in messages(&bytes) {
                attributes(body).count();
            }
        }
    }
}
