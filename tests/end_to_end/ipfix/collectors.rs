//! Collectors as child processes in a namespace of their own, and what they say.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use fathom_lab::{Namespace, Process, obstacle, wait_until};
use netflow_parser::variable_versions::ipfix::FlowSetBody;
use netflow_parser::{FieldValue, IpfixField, NetflowPacket, NetflowParser};
use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::invented::ENTERPRISE;

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
pub(crate) const PORT: u16 = 4739;

/// A namespace with an IPv6 loopback too; `None` where it cannot be, or a program is missing.
pub(crate) fn namespace(programs: &[&str]) -> Option<Namespace> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_installed =
        |program: &str| std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    let missing = programs.iter().find(|program| !is_installed(program));
    let why = match missing {
        Some(program) => Some(format!("{program} is not installed")),
        None => obstacle(),
    };
    if let Some(why) = why {
        println!("skipped: {why}");
        return None;
    }
    Some(Namespace::new("collector").unwrap())
}

/// Waits until something in the namespace listens at the port.
pub(crate) fn wait_for_port(namespace: &Namespace, transport: &str) {
    let listening = || {
        let sockets = namespace.run(&format!("ss -Hln --{transport}")).unwrap();
        sockets.contains(&format!(":{PORT} "))
    };
    wait_until(PATIENCE, "the collector", listening).unwrap();
}

/// Waits until the collector has read every datagram that the kernel has for it, and that none was
/// lost for want of room.
pub(crate) fn wait_until_read(namespace: &Namespace) {
    let is_read = || {
        let sockets = namespace.run("ss -Hlun").unwrap();
        let of_port = sockets
            .lines()
            .filter(|line| line.contains(&format!(":{PORT} ")));
        of_port
            .map(|line| line.split_whitespace().nth(1).unwrap().to_owned())
            .all(|waiting| waiting == "0")
    };
    wait_until(PATIENCE, "an empty queue", is_read).unwrap();
}

/// Ends a collector and gives what it has printed.
pub(crate) fn end(process: Process, signal: Signal) -> (String, String) {
    process.signal(signal).unwrap();
    let output = process.output(PATIENCE).unwrap();
    (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

pub(crate) fn start(namespace: &Namespace, program: &str, arguments: &[&str]) -> Process {
    let mut command = namespace.command(program);
    command
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Process::start(&mut command).unwrap()
}

/// Records what passes on the loopback while `work` runs, until `expected_bytes` of messages are in
/// the file.
pub(crate) fn captured(namespace: &Namespace, file: &Path, work: impl FnOnce() -> usize) {
    let path = file.to_str().unwrap();
    let filter = format!("port {PORT}");
    let dumpcap = start(
        namespace,
        "dumpcap",
        &["-q", "-P", "-i", "lo", "-f", &filter, "-w", path],
    );
    let length = || std::fs::metadata(file).map_or(0, |file| file.len());
    wait_until(PATIENCE, "a capture file", || length() >= 24).unwrap();
    let bytes = work() as u64;
    wait_until(PATIENCE, "the packets in the file", || length() > bytes).unwrap();
    end(dumpcap, Signal::SIGINT);
}

/// What tshark says of the file, a line for each message, with the fields asked for.
pub(crate) fn tshark(file: &Path, filter: &str, fields: &[&str]) -> Vec<String> {
    let mut command = Command::new("tshark");
    let path = file.to_str().unwrap();
    command.args(["-r", path, "-Y", filter, "-T", "fields"]);
    // It takes 60 fields of a template, unless it is told otherwise.
    command.args(["-o", "cflow.max_template_fields:0"]);
    for transport in ["udp", "tcp"] {
        command.args(["-d", &format!("{transport}.port=={PORT},cflow")]);
    }
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// All values of a field in the file.
pub(crate) fn values(file: &Path, field: &str) -> Vec<String> {
    let lines = tshark(file, "cflow", &[field]);
    let values = lines.iter().flat_map(|line| line.split(','));
    values
        .filter(|value| !value.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The values of a data record: by IANA's names in lower case, and by those of own elements that
/// the exporter tells, or their numbers.
pub(crate) type Decoded = BTreeMap<String, FieldValue>;

/// What `netflow_parser` makes of the messages: all data records but those about elements and the
/// observer.
pub(crate) fn decoded(datagrams: &[Vec<u8>]) -> Vec<Decoded> {
    let mut parser = NetflowParser::default();
    let (mut names, mut records) = (HashMap::new(), Vec::new());
    for datagram in datagrams {
        let result = parser.parse_bytes(datagram);
        assert!(result.error.is_none(), "{:?}", result.error);
        let [NetflowPacket::IPFix(message)] = &result.packets[..] else {
            panic!("{:?}", result.packets);
        };
        for set in &message.flowsets {
            let (fields, is_options) = match &set.body {
                FlowSetBody::Data(data) => (&data.fields, false),
                FlowSetBody::OptionsData(data) => (&data.fields, true),
                FlowSetBody::NoTemplate(_) | FlowSetBody::Empty => panic!("{set:?}"),
                _ => continue,
            };
            for fields in fields {
                let decoded: Decoded = fields
                    .iter()
                    .map(|(field, value)| (name_of(*field, &names), value.clone()))
                    .collect();
                assert_eq!(decoded.len(), fields.len(), "a name twice: {fields:?}");
                match decoded.get("informationelementname") {
                    Some(FieldValue::String(name)) => {
                        let FieldValue::DataNumber(number) = &decoded["informationelementid"]
                        else {
                            panic!("{decoded:?}");
                        };
                        names.insert(number.as_u16().unwrap(), name.value.clone());
                    }
                    // What the exporter tells of itself.
                    _ if is_options => {}
                    _ => records.push(decoded),
                }
            }
        }
    }
    records
}

fn name_of(field: IpfixField, own: &HashMap<u16, String>) -> String {
    match field {
        IpfixField::IANA(name) => format!("{name:?}").to_lowercase(),
        IpfixField::ReverseInformationElement(name) => format!("{name:?}").to_lowercase(),
        IpfixField::Enterprise {
            enterprise_number: ENTERPRISE,
            field_number,
        } if own.contains_key(&field_number) => own[&field_number].clone(),
        other => format!("{other:?}"),
    }
}

/// Whether the decoder has read this value: of an element it does not know it gives the bytes.
pub(crate) fn is_equal(found: &FieldValue, wanted: &Value) -> bool {
    match found {
        FieldValue::DataNumber(number) => wanted.is_u64() && number.as_u64() == wanted.as_u64(),
        FieldValue::Duration(time) => {
            wanted.as_u64().map(u128::from) == Some(time.as_duration().as_millis())
        }
        FieldValue::Ip4Addr(address) => *wanted == address.to_string(),
        FieldValue::Ip6Addr(address) => *wanted == address.to_string(),
        FieldValue::ProtocolType(protocol) => *wanted == u8::from(*protocol),
        FieldValue::FlowEndReason(reason) => *wanted == u8::from(*reason),
        FieldValue::String(text) => wanted.as_str() == Some(text.value.trim_end_matches('\0')),
        FieldValue::Vec(bytes) => match wanted {
            Value::String(text) => String::from_utf8_lossy(bytes).trim_end_matches('\0') == text,
            Value::Bool(is_true) => *bytes == [if *is_true { 1 } else { 2 }],
            Value::Number(number) => {
                let wanted = match number.as_u64() {
                    Some(whole) => whole.to_be_bytes(),
                    None => number.as_f64().unwrap().to_be_bytes(),
                };
                *bytes == wanted
            }
            _ => false,
        },
        _ => false,
    }
}

/// nfcapd, which takes messages over UDP, and nfdump, which prints them.
pub(crate) struct Nfcapd {
    process: Process,
    directory: TempDir,
}

impl Nfcapd {
    pub(crate) fn start(namespace: &Namespace) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (port, folder) = (PORT.to_string(), directory.path().to_str().unwrap());
        let arguments = ["-b", "127.0.0.1", "-p", &port, "-w", folder, "-t", "3600"];
        let process = start(namespace, "nfcapd", &arguments);
        wait_for_port(namespace, "udp");
        Self { process, directory }
    }

    /// What came, a line for each flow with the cells of this format, which has commas between
    /// them.
    pub(crate) fn finish(self, format: &str) -> Vec<Vec<String>> {
        end(self.process, Signal::SIGTERM);
        let output = Command::new("nfdump")
            .arg("-R")
            .arg(self.directory.path())
            .args(["-q", "-6", "-o", format])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let lines = text.lines().filter(|line| line.contains(','));
        lines
            .map(|line| line.split(',').map(|cell| cell.trim().to_owned()).collect())
            .collect()
    }
}

/// nfacctd, which takes messages over UDP.
pub(crate) struct Nfacctd {
    process: Process,
    printed: PathBuf,
    _directory: TempDir,
}

impl Nfacctd {
    /// With these own elements: name, number, length, and what it calls the type.
    pub(crate) fn start(namespace: &Namespace, elements: &[(&str, u16, u16, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| directory.path().join(name);
        let lines = elements.iter().map(|(name, element, length, semantics)| {
            format!(
                "name={name} field_type={ENTERPRISE}:{element} len={length} semantics={semantics}\n"
            )
        });
        let names: Vec<_> = elements.iter().map(|(name, ..)| *name).collect();
        let (primitives, printed, configuration) =
            (file("primitives"), file("printed"), file("configuration"));
        std::fs::write(&primitives, lines.collect::<String>()).unwrap();
        // It prints when it ends. Where its printing process wakes by itself, every so often, that
        // process can take what it was handed a second time, and adds it up (pmacct 1.7.7,
        // `print_plugin.c`: a wake-up that is left over after `poll` ran out of time is answered
        // with the last buffer).
        let text = format!(
            "daemonize: false\nnfacctd_ip: 127.0.0.1\nnfacctd_port: {PORT}\nplugins: print\n\
             aggregate: src_host, dst_host, src_port, dst_port, proto, {}\n\
             aggregate_primitives: {}\nprint_output: json\nprint_refresh_time: 86400\nprint_output_file: {}\n",
            names.join(", "),
            primitives.display(),
            printed.display(),
        );
        std::fs::write(&configuration, text).unwrap();
        let process = start(
            namespace,
            "nfacctd",
            &["-f", configuration.to_str().unwrap()],
        );
        wait_for_port(namespace, "udp");
        Self {
            process,
            printed,
            _directory: directory,
        }
    }

    /// Ends it when it has taken all that waits for it; what it printed.
    pub(crate) fn finish(self, namespace: &Namespace) -> Vec<Value> {
        wait_until_read(namespace);
        let own = self.process.id().to_string();
        let children = format!("/proc/{own}/task/{own}/children");
        let children = std::fs::read_to_string(children).unwrap();
        // What it was handed the printing process takes after it, and not once it has been ended.
        for pid in [own.as_str()]
            .into_iter()
            .chain(children.split_whitespace())
        {
            let is_asleep = || {
                let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
                text.rsplit_once(") ").unwrap().1.starts_with('S')
            };
            wait_until(PATIENCE, "nfacctd to wait for more", is_asleep).unwrap();
        }
        let (_, errors) = end(self.process, Signal::SIGINT);
        let text = std::fs::read_to_string(&self.printed);
        let text = text.unwrap_or_else(|error| panic!("{error}: {errors}"));
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}
