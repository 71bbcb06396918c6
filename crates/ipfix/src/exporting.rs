//! An export: records become messages here, and a thread sends these.

use std::time::Duration;

use fathom_record::{Record, Time};

use crate::{
    Counters, Destination, Error, Exporter, ExporterCounts, ExporterSettings, Sender,
    SenderSettings,
};

/// Messages that are handed to the thread together: to wake it for each would cost more than to
/// make it.
const MESSAGES_AT_A_TIME: usize = 32;

/// Records to a collector: an [`Exporter`] and a [`Sender`].
///
/// ```no_run
/// use std::time::Duration;
/// use fathom_ipfix::{Export, ExporterSettings, SenderSettings};
/// # fn example(record: &dyn fathom_record::Record, now: fathom_record::Time) -> Result<(),
/// fathom_ipfix::Error> {
/// let destination = "ipfix+udp://127.0.0.1:4739".parse()?;
/// let mut export = Export::open(&destination, ExporterSettings::default(),
/// &SenderSettings::default())?;
/// export.record(record, now);
/// let counters = export.close(Duration::from_secs(2));
/// assert_eq!(counters.dropped_records, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Export {
    destination: Destination,
    exporter: Exporter,
    sender: Sender,
}

impl Export {
    /// Starts an export; messages get the length that the destination can take: over UDP what
    /// passes the path whole, as soon as that is known, but no more than collectors have room for.
    ///
    /// # Errors
    /// As [`Sender::start`].
    pub fn open(
        destination: &Destination,
        settings: ExporterSettings,
        sender: &SenderSettings,
    ) -> Result<Self, Error> {
        let sender = Sender::start(destination, sender)?;
        Ok(Self::over(destination, settings, sender))
    }

    /// The same, once there is a connection; over UDP, once the name has an address.
    ///
    /// # Errors
    /// As [`Sender::connect`].
    pub fn connect(
        destination: &Destination,
        settings: ExporterSettings,
        sender: &SenderSettings,
    ) -> Result<Self, Error> {
        let sender = Sender::connect(destination, sender)?;
        Ok(Self::over(destination, settings, sender))
    }

    fn over(destination: &Destination, settings: ExporterSettings, sender: Sender) -> Self {
        let settings = ExporterSettings {
            message_bytes: destination.message_bytes(None),
            ..settings
        };
        Self {
            destination: destination.clone(),
            exporter: Exporter::new(&settings),
            sender,
        }
    }

    /// Where it goes.
    pub fn destination(&self) -> &Destination {
        &self.destination
    }

    /// Takes a record; never waits. Messages leave some at a time: the last ones with
    /// [`Export::tick`].
    pub fn record(&mut self, record: &dyn Record, now: Time) {
        self.exporter.record(record, now);
        if self.exporter.outgoing_len() >= MESSAGES_AT_A_TIME {
            self.sender.push(self.exporter.outgoing());
        }
    }

    /// To be called after some records, and when [`Export::due`]: sends the messages that are
    /// whole, or have waited long enough.
    pub fn tick(&mut self, now: Time) {
        self.exporter.tick(now);
        self.sender.push(self.exporter.outgoing());
        if let Some(path_mtu) = self.sender.path_mtu() {
            let message_bytes = self.destination.message_bytes(Some(path_mtu));
            self.exporter.limit_messages(message_bytes);
        }
    }

    /// When a record has waited long enough; `None` if none waits.
    pub fn due(&self) -> Option<Time> {
        self.exporter.due()
    }

    /// What happened to records before they were in messages.
    pub fn records(&self) -> ExporterCounts {
        self.exporter.counts()
    }

    /// Bytes of messages that wait.
    pub fn waiting_bytes(&self) -> usize {
        self.sender.waiting_bytes()
    }

    /// What happened to messages.
    pub fn counters(&self) -> Counters {
        self.sender.counters()
    }

    /// Why messages wait, or did until the end, if the collector cannot be reached.
    pub fn trouble(&self) -> Option<String> {
        self.sender.trouble()
    }

    /// Sends everything, for `patience` at most, and ends; what did not leave is counted as
    /// dropped.
    pub fn finish(&mut self, patience: Duration) -> Counters {
        self.exporter.flush();
        self.sender.push(self.exporter.outgoing());
        self.sender.finish(patience)
    }

    /// The same, where it is of no interest why something did not leave.
    pub fn close(mut self, patience: Duration) -> Counters {
        self.finish(patience)
    }
}
