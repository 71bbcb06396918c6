//! Measurements that run in one process, on one interface.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use fathom_measure::kernel::Hooks;
use fathom_measure::{Error, Measurement, response, rtt, traffic, wait_for};
use fathom_record::{FlowKey, Record};

const INTERFACE: &str = "lo";
const EXCHANGES: usize = 200;
const PATIENCE: Duration = Duration::from_secs(20);
/// Before the answer.
const DELAY: Duration = Duration::from_millis(5);

/// A connection whose server takes a little for each answer; returns the client's port and the
/// server's.
fn exchange() -> io::Result<(u16, u16)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let server = listener.local_addr()?;
    let answers = thread::spawn(move || {
        let (mut stream, _) = listener.accept()?;
        let mut request = [0; 100];
        while stream.read_exact(&mut request).is_ok() {
            thread::sleep(DELAY);
            stream.write_all(&[1; 50])?;
        }
        io::Result::Ok(())
    });
    let mut client = TcpStream::connect(server)?;
    client.set_nodelay(true)?;
    for _ in 0..EXCHANGES {
        client.write_all(&[0; 100])?;
        client.read_exact(&mut [0; 50])?;
    }
    let port = client.local_addr()?.port();
    drop(client);
    answers.join().expect("the server's thread")?;
    Ok((port, server.port()))
}

/// Both by programs of their own, or all by the same.
fn start(shares: bool) -> Result<Vec<Box<dyn Measurement>>, Error> {
    let (rtt, response) = (rtt::Settings::live(), response::Settings::live());
    let traffic = traffic::Settings::live();
    let interfaces = [INTERFACE.to_owned()];
    if shares {
        let hooks = Hooks::attach(&interfaces, false, &[&rtt, &response, &traffic])?;
        return Ok(vec![
            Box::new(rtt::RttMonitor::of(&hooks, &rtt, None)?),
            Box::new(response::ResponseMonitor::of(
                &hooks, &response, None, None,
            )?),
            Box::new(traffic::TrafficMonitor::of(&hooks)?),
        ]);
    }
    let hooks = Hooks::attach(&interfaces, false, &[&rtt])?;
    let others = Hooks::attach(&interfaces, false, &[&response])?;
    Ok(vec![
        Box::new(rtt::RttMonitor::of(&hooks, &rtt, None)?),
        Box::new(response::ResponseMonitor::of(
            &others, &response, None, None,
        )?),
    ])
}

/// What both tell: whose samples, and what clients waited.
#[derive(Default)]
struct Seen {
    samples: Vec<FlowKey>,
    latencies_ns: Vec<(FlowKey, u64)>,
}

impl Seen {
    fn take(&mut self, record: &dyn Record) {
        if let Some(rtt::Report::Sample(sample, _)) = record.downcast_ref() {
            self.samples.push(sample.flow);
        } else if let Some(epoch) = record.downcast_ref::<response::ResponseEpoch>() {
            let latency = epoch.latency_ns.map(|latency| (epoch.flow, latency.0));
            self.latencies_ns.extend(latency);
        }
    }
}

#[test]
fn measurements_run_together() {
    if !crate::is_root() {
        println!("skipped: loading BPF programs needs root");
        return;
    }
    for shares in [false, true] {
        run_together(start(shares).unwrap());
    }
}

fn run_together(mut measurements: Vec<Box<dyn Measurement>>) {
    let ports = thread::spawn(exchange);
    let (mut seen, begin) = (Seen::default(), Instant::now());
    while !ports.is_finished() {
        assert!(begin.elapsed() < PATIENCE, "the exchange has not ended");
        wait_for(&measurements, PATIENCE).unwrap();
        for measurement in &mut measurements {
            assert_eq!(measurement.follow().unwrap(), Vec::<String>::new());
            measurement.poll(&mut |record| seen.take(record)).unwrap();
        }
    }
    for measurement in &mut measurements {
        measurement.finish(&mut |record| seen.take(record)).unwrap();
    }
    let (client, server) = ports.join().unwrap().unwrap();
    let counts: Vec<_> = measurements
        .iter()
        .map(|one| one.counts().unwrap())
        .collect();
    let own = |flow: &&FlowKey| (flow.source_port, flow.destination_port) == (client, server);
    // Linux delays acknowledgements; the requests that carry them are matched all the same.
    assert!(counts[0].get("samples") > 0, "{counts:?}");
    assert!(
        seen.samples.iter().filter(own).count() > 1,
        "{:?}",
        seen.samples
    );
    assert!(counts[1].get("epochs") > 0, "{counts:?}");
    let latencies = seen.latencies_ns.iter().filter(|(flow, _)| own(&flow));
    let least = latencies.map(|(_, latency)| *latency).min();
    let least = Duration::from_nanos(least.expect("an estimate"));
    assert!((DELAY * 9 / 10..PATIENCE).contains(&least), "{least:?}");
    for (measurement, counts) in measurements.iter().zip(&counts) {
        let opened = counts.get("flows opened");
        assert!(opened > 0, "{}: {counts:?}", measurement.name());
        // The table of flows is theirs together: none drives out another's.
        let gone = counts.get("flows evicted: table full");
        assert_eq!(gone, 0, "{}: {counts:?}", measurement.name());
    }
}
