//! What walking a capture costs beside reading its bytes: 1.1 million packets in the page cache,
//! one thread, the fastest of several passes. The last column is the ratio to the bare read of the
//! same file in the same run; the target is a pcap walk below 2 times the bare read.

use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use fathom_capture::{LinkType, Reader, SectionWriter, Writer};
use pcap_parser::{Block, PcapBlockOwned, PcapError, create_reader};

const PACKETS: u64 = 1_100_000;
const CAPTURED_BYTES: usize = 124;
const PASSES: usize = 9;
const BUFFER_BYTES: usize = 256 << 10;

type Outcome<T> = Result<T, Box<dyn Error>>;
type Walk = fn(&Path) -> Outcome<u64>;

fn main() -> Outcome<()> {
    let directory = std::env::temp_dir();
    let process = std::process::id();
    for (format, write) in [
        ("pcap", write_pcap as fn(&Path) -> Outcome<()>),
        ("pcapng", write_pcapng),
    ] {
        let path = directory.join(format!("fathom-walk-{process}.{format}"));
        let result = write(&path).and_then(|()| compare(format, &path));
        std::fs::remove_file(&path)?;
        result?;
    }
    Ok(())
}

fn compare(format: &str, path: &Path) -> Outcome<()> {
    let bare = fastest(|| bare_read(path))?;
    let walks: [(&str, Walk); 2] = [("fathom-capture", walk), ("pcap-parser", walk_with_library)];
    println!(
        "{format:<7} {:<15} {:>6.1} ms",
        "bare read",
        milliseconds(bare)
    );
    for (name, walk) in walks {
        let took = fastest(|| walk(path))?;
        let per_packet_ns = took.as_nanos() as f64 / PACKETS as f64;
        let ratio = took.as_secs_f64() / bare.as_secs_f64();
        println!(
            "{format:<7} {name:<15} {:>6.1} ms {per_packet_ns:>5.1} ns a packet {ratio:>5.2} x",
            milliseconds(took)
        );
    }
    Ok(())
}

fn fastest(mut pass: impl FnMut() -> Outcome<u64>) -> Outcome<Duration> {
    let mut fastest = Duration::MAX;
    for _ in 0..PASSES {
        let begin = Instant::now();
        black_box(pass()?);
        fastest = fastest.min(begin.elapsed());
    }
    Ok(fastest)
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn packets() -> impl Iterator<Item = (u64, [u8; CAPTURED_BYTES])> {
    (0..PACKETS).map(|index| {
        (
            1_700_000_000_000_000_000 + index * 1_000,
            [index as u8; CAPTURED_BYTES],
        )
    })
}

fn write_pcap(path: &Path) -> Outcome<()> {
    let mut writer = Writer::new(File::create(path)?, LinkType::ETHERNET, 0)?;
    for (time_ns, data) in packets() {
        writer.write(time_ns, 1_514, &data)?;
    }
    writer.finish()?;
    Ok(())
}

fn write_pcapng(path: &Path) -> Outcome<()> {
    let mut writer = SectionWriter::new(File::create(path)?)?;
    let interface = writer.add_interface("eth0", LinkType::ETHERNET, 0)?;
    for (time_ns, data) in packets() {
        writer.write(interface, time_ns, 1_514, &data)?;
    }
    writer.finish()?;
    Ok(())
}

fn bare_read(path: &Path) -> Outcome<u64> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut bytes = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(bytes),
            count => bytes += black_box(count as u64),
        }
    }
}

/// The sum of every packet's time and first byte.
fn walk(path: &Path) -> Outcome<u64> {
    let mut reader = Reader::open(path)?;
    let mut sum = 0_u64;
    while let Some(packet) = reader.next_packet()? {
        sum = sum.wrapping_add(packet.time_ns ^ u64::from(packet.data[0]));
    }
    Ok(sum)
}

/// Does less than [`walk`]: times are left in the units of the file.
fn walk_with_library(path: &Path) -> Outcome<u64> {
    let mut reader =
        create_reader(BUFFER_BYTES, File::open(path)?).map_err(|error| error.to_string())?;
    let mut sum = 0_u64;
    loop {
        match reader.next() {
            Ok((bytes, block)) => {
                let (time, data) = match &block {
                    PcapBlockOwned::Legacy(packet) => (packet.ts_usec, packet.data),
                    PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                        (packet.ts_low, packet.data)
                    }
                    _ => (0, &[0][..]),
                };
                sum = sum.wrapping_add(u64::from(time) ^ u64::from(data[0]));
                reader.consume(bytes);
            }
            Err(PcapError::Eof) => return Ok(sum),
            Err(PcapError::Incomplete(_)) => reader.refill().map_err(|error| error.to_string())?,
            Err(error) => return Err(error.to_string().into()),
        }
    }
}
