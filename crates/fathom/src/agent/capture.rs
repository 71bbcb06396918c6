//! `fathom agent capture`: single samples of chosen flows for a time.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fathom_measure::kernel::Ring;
use fathom_measure::{Counts, Measurement};
use fathom_record::format::{Format, Sink};
use fathom_record::{FlowKey, Network, Record, Time, Value, Visitor};

use crate::session::View;
use crate::{summary, zone};

/// More than this does not wait for a client that is slow.
const WAITING_BYTES: usize = 1 << 20;
/// What waits at the end may take so long to be read.
const PATIENCE: Duration = Duration::from_millis(500);

/// An end of a flow: a network, which may be one address, and maybe a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    pub(super) network: Network,
    pub(super) port: Option<u16>,
}

impl FromStr for End {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let of_socket = |socket: SocketAddr| Self {
            network: socket.ip().into(),
            port: Some(socket.port()),
        };
        let of_network = |network| Self {
            network,
            port: None,
        };
        let end = text.parse().map(of_socket);
        end.or_else(|_| text.parse().map(of_network)).map_err(|_| {
            "write it as in 192.0.2.1:443, [2001:db8::1]:443, 192.0.2.1 or 192.0.2.0/24".to_owned()
        })
    }
}

impl fmt::Display for End {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => SocketAddr::new(self.network.address(), port).fmt(formatter),
            None => self.network.fmt(formatter),
        }
    }
}

impl End {
    fn is(&self, address: IpAddr, port: u16) -> bool {
        self.network.contains(address) && self.port.is_none_or(|own| own == port)
    }

    /// May it be that of many hosts?
    pub(super) fn is_wide(&self) -> bool {
        self.network != self.network.address().into()
    }
}

/// Has the flow these ends, one or both?
fn has_ends(flow: &FlowKey, ends: &[End]) -> bool {
    let here = (flow.source, flow.source_port);
    let there = (flow.destination, flow.destination_port);
    let are = |order: [(IpAddr, u16); 2]| {
        let mut pairs = ends.iter().zip(order);
        pairs.all(|(end, (address, port))| end.is(address, port))
    };
    are([here, there]) || are([there, here])
}

/// The flow that a record is of.
#[derive(Default)]
struct OfFlow(Option<FlowKey>);

impl Visitor for OfFlow {
    fn value(&mut self, _index: usize, _value: Value<'_>) {}

    fn flow(&mut self, _index: usize, flow: &FlowKey) {
        self.0 = Some(*flow);
    }
}

/// Samples on their way to who asked for them.
pub(super) struct Capture {
    ends: Vec<End>,
    measurements: Vec<Box<dyn Measurement>>,
    over: Instant,
    client: Client,
}

/// Who asked.
struct Client {
    stream: UnixStream,
    format: Format,
    sink: Box<dyn Sink + Send>,
    buffer: Vec<u8>,
    lost: u64,
}

impl Capture {
    /// Those of its events.
    pub(super) fn rings(&self) -> impl Iterator<Item = Arc<Ring>> {
        self.measurements.iter().flat_map(|one| one.rings())
    }

    /// Of flows with these `ends`, by measurements that have just started.
    ///
    /// # Errors
    /// When the stream cannot be used.
    pub(super) fn start(
        ends: Vec<End>,
        measurements: Vec<Box<dyn Measurement>>,
        duration: Duration,
        (stream, format, host): (UnixStream, Format, &str),
    ) -> std::io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            ends,
            measurements,
            over: Instant::now() + duration,
            client: Client {
                stream,
                format,
                sink: format.sink_of(host, zone::offset_at),
                buffer: Vec::new(),
                lost: 0,
            },
        })
    }

    /// Hands on what has come, to the client and the sinks. `false`: it is over, or the client has
    /// gone away.
    ///
    /// # Errors
    /// When a measurement fails.
    pub(super) fn poll(&mut self, view: &mut View) -> anyhow::Result<bool> {
        let (ends, client) = (&self.ends, &mut self.client);
        let mut take = |record: &dyn Record| {
            let mut flow = OfFlow::default();
            record.visit(&mut flow);
            if flow.0.is_some_and(|flow| has_ends(&flow, ends)) {
                client.put(record);
                view.take(record);
            }
        };
        let is_over = Instant::now() >= self.over;
        for measurement in &mut self.measurements {
            if is_over {
                measurement.finish(&mut take)?;
            } else {
                measurement.poll(&mut take)?;
            }
            measurement.follow()?;
        }
        if is_over {
            for measurement in &self.measurements {
                client.put_counts(measurement.name(), &measurement.counts()?);
            }
        }
        Ok(client.flush().is_ok() && !is_over)
    }

    /// Waits a moment for the client. Returns how many lines it has not got.
    pub(super) fn end(mut self) -> u64 {
        let Client {
            stream,
            buffer,
            lost,
            ..
        } = &mut self.client;
        let written = stream
            .set_nonblocking(false)
            .and_then(|()| stream.set_write_timeout(Some(PATIENCE)))
            .and_then(|()| stream.write_all(buffer));
        let left = buffer.split(|&byte| byte == b'\n').count() as u64 - 1;
        *lost + if written.is_ok() { 0 } else { left }
    }
}

impl Client {
    fn put(&mut self, record: &dyn Record) {
        if self.buffer.len() >= WAITING_BYTES {
            self.lost += 1;
        } else {
            self.sink.write(record, &mut self.buffer);
        }
    }

    /// At the end: how much was captured, and by name what was not.
    fn put_counts(&mut self, measurement: &'static str, counts: &Counts) {
        if self.format == Format::Text {
            let headline = format!("{measurement}: {}", counts.headline());
            let text = summary::text(&headline, &counts.named) + "\n";
            self.buffer.extend_from_slice(text.as_bytes());
        } else {
            for count in counts.records(Time::now(), measurement) {
                self.put(&count);
            }
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        // A client that waits says nothing, and one that has gone away has said all.
        if let Ok(0) = self.stream.read(&mut [0]) {
            return Err(ErrorKind::BrokenPipe.into());
        }
        while !self.buffer.is_empty() {
            match self.stream.write(&self.buffer) {
                Ok(length) => drop(self.buffer.drain(..length)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::Protocol;

    use super::*;

    #[test]
    fn a_flow_has_its_ends_in_either_order() {
        let end = |text: &str| text.parse::<End>().unwrap();
        let [client, server] = ["192.0.2.1:40000", "[2001:db8::1]:443"].map(end);
        assert_eq!(end("192.0.2.1").port, None);
        assert!(!client.is_wide() && !end("192.0.2.1").is_wide());
        assert!(end("192.0.2.0/24").is_wide());
        for wrong in [
            "",
            "192.0.2.1:x",
            "web:443",
            "192.0.2.0/33",
            "192.0.2.0/24:443",
        ] {
            assert!(wrong.parse::<End>().is_err(), "{wrong}");
        }
        let flow = FlowKey {
            protocol: Protocol::TCP,
            source: client.network.address(),
            source_port: 40000,
            destination: server.network.address(),
            destination_port: 443,
        };
        for flow in [flow, flow.reversed()] {
            for ends in [
                &[client][..],
                &[server],
                &[client, server],
                &[server, client],
            ] {
                assert!(has_ends(&flow, ends), "{ends:?}");
            }
            assert!(has_ends(&flow, &[end("192.0.2.1")]));
            assert!(has_ends(&flow, &[end("192.0.2.0/24")]));
            assert!(has_ends(&flow, &[server, end("192.0.0.0/16")]));
            for ends in [
                &[client, client][..],
                &[end("192.0.2.1:443")],
                &[end("::1")],
                &[end("198.51.100.0/24")],
                &[server, end("0.0.0.0/1")],
            ] {
                assert!(!has_ends(&flow, ends), "{ends:?}");
            }
        }
    }
}
