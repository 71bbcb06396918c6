//! Records the sample capture that packages have (`packaging/examples/sample.pcapng`): ten seconds
//! at a router between a client, 3 ms away, and a server, 20 ms away. Requests take the server 12
//! ms. After five seconds the way to it is 15 ms longer. `make sample` runs it, as root.

use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use fathom_lab::traffic::{dns, tcp, tools};
use fathom_lab::{Direction, Layer, LinkConfig, Topology, Way};

const LENGTH: Duration = Duration::from_secs(10);
const NEAR: Duration = Duration::from_millis(3);
const FAR: Duration = Duration::from_millis(20);
const FARTHER: Duration = Duration::from_millis(35);
const LOSS: f64 = 0.02;

fn main() -> Result<(), Box<dyn Error>> {
    let folder: PathBuf = std::env::args_os().nth(1).ok_or("sample FOLDER")?.into();
    let lab = Topology::builder()
        .lan(LinkConfig::symmetric(NEAR))
        .wan(LinkConfig {
            forward: Direction::delayed(FAR).loss(LOSS),
            backward: Direction::delayed(FAR),
            seed: 1,
        })
        .layer(Layer::Ethernet)
        .captures(&folder)
        .build()?;
    let at = |port| SocketAddr::from((Topology::SERVER_V4, port));
    let think = dns::Think::constant(Duration::from_millis(4));
    let _web = tcp::Server::start(&lab.server, at(8080))?;
    let _names = dns::Server::start(&lab.server, at(53), think)?;
    let end = Instant::now() + LENGTH;
    let pause = Duration::from_millis(250);
    let web = tcp::Client {
        requests: 8,
        pause,
        ..tcp::Client::new(at(8080))
    };
    let names = dns::Client {
        queries: 1,
        pause: pause * 4,
        ..dns::Client::new(at(53))
    };
    thread::scope(|scope| {
        let client = &lab.client;
        let until_end = |run: &dyn Fn() -> fathom_lab::Result<()>| {
            while Instant::now() < end {
                run()?;
            }
            Ok::<_, fathom_lab::Error>(())
        };
        let running = [
            scope.spawn(move || until_end(&|| web.run(client).map(drop))),
            scope.spawn(move || until_end(&|| names.run(client).map(drop))),
            scope.spawn(move || {
                let second = Duration::from_secs(1);
                tools::ping(client, Topology::SERVER_V4, LENGTH.as_secs() as u32, second).map(drop)
            }),
        ];
        thread::sleep(LENGTH / 2);
        let farther = Direction::delayed(FARTHER);
        lab.wan
            .reconfigure(Way::Forward, farther.clone().loss(LOSS));
        lab.wan.reconfigure(Way::Backward, farther);
        for thread in running {
            thread.join().map_err(|_| "a thread panicked")??;
        }
        Ok::<_, Box<dyn Error>>(())
    })?;
    lab.wan.flush_captures()?;
    Ok(())
}
