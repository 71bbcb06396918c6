//! Servers of ClickHouse.

use std::path::Path;
use std::process::Stdio;

use fathom_lab::{Namespace, Process, wait_until};
use fathom_tests::clickhouse;
use serde_json::{Map, Value};

use super::super::PATIENCE;

/// A server, or what answers as one.
pub(super) struct Server<'a> {
    namespace: &'a Namespace,
    port: u16,
    pub(super) process: Option<Process>,
    command: Vec<String>,
    /// What a time is as nanoseconds.
    is_old: bool,
}

impl<'a> Server<'a> {
    pub(super) fn start(
        namespace: &'a Namespace,
        port: u16,
        command: Vec<String>,
        is_old: bool,
    ) -> Self {
        let mut server = Self {
            namespace,
            port,
            process: None,
            command,
            is_old,
        };
        server.come_back();
        server
    }

    pub(super) fn come_back(&mut self) {
        let mut command = self.namespace.command(&self.command[0]);
        command
            .args(&self.command[1..])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        self.process = Some(Process::start(&mut command).unwrap());
        wait_until(PATIENCE, "the server to answer", || {
            self.ask("SELECT 1").trim() == "1"
        })
        .unwrap();
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(super) fn ask(&self, statement: &str) -> String {
        let mut curl = self.namespace.command("curl");
        let curl = curl.args(["-s", &self.url(), "--data-binary", statement]);
        String::from_utf8(curl.output().unwrap().stdout).unwrap()
    }

    /// The rows of a view, in some order.
    pub(super) fn rows(&self, view: &str, times: &[&str], columns: &str) -> Vec<String> {
        let time = |name: &&str| {
            if self.is_old {
                format!("{name} AS {name}_ns")
            } else {
                format!("toUnixTimestamp64Nano({name}) AS {name}_ns")
            }
        };
        let all = times.iter().map(time).chain([columns.to_owned()]);
        let all = all.collect::<Vec<_>>().join(", ");
        let answer = self.ask(&format!(
            "SELECT {all} FROM fathom.{view} FORMAT JSONEachRow"
        ));
        let rows = answer.lines().map(|line| {
            let row = serde_json::from_str(line);
            canonical(&row.unwrap_or_else(|_| panic!("{view}: {answer}")))
        });
        sorted(rows.collect())
    }
}

/// With numbers as they are compared: ClickHouse puts those of 64 bits into quotes.
pub(super) fn canonical(row: &Map<String, Value>) -> String {
    let mut columns: Vec<_> = row
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| {
            let number = match value {
                Value::String(text) => text.parse().ok(),
                value => value.as_f64(),
            };
            match number {
                Some(number) => format!("{name}={number:.9e}"),
                None => format!("{name}={value}"),
            }
        })
        .collect();
    columns.sort();
    columns.join(" ")
}

pub(super) fn sorted(mut rows: Vec<String>) -> Vec<String> {
    rows.sort();
    rows
}

/// Debian's server, as one of two shards, also by TLS.
pub(super) fn old(folder: &Path, number: u16) -> Vec<String> {
    let shard = |port| {
        format!("<shard><replica><host>127.0.0.1</host><port>{port}</port></replica></shard>")
    };
    let more = format!(
        "<https_port>{}</https_port>\
         <openSSL><server><certificateFile>{certificates}/server.pem</certificateFile>\
         <privateKeyFile>{certificates}/server.key</privateKeyFile>\
         <verificationMode>none</verificationMode></server></openSSL>\
         <remote_servers><two>{}{}</two></remote_servers>",
        8443 + number,
        shard(9000),
        shard(9001),
        certificates = folder.display(),
    );
    let own = folder.join(format!("shard{number}"));
    let config = clickhouse(&own, (8123 + number, 9000 + number), &more).unwrap();
    vec![
        "clickhouse-server".to_owned(),
        format!("--config-file={}", config.display()),
    ]
}
