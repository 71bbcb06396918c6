//! Rows with as many columns as a profile has, always the same, in a Parquet file as a store has
//! them.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use arrow_array::builder::{ArrayBuilder as _, StringBuilder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use fathom_measure::profile::TcpProfile;
use fathom_record::Type;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

/// So many are put together before they are written, and a group of the file has so many.
const BATCH_ROWS: usize = 2_048;
const GROUP_ROWS: usize = 8_192;
const NUMBER: u64 = 1_500;
const TEXT: &str = "192.0.2.1";

pub(super) struct Rows {
    columns: SchemaRef,
    texts: Vec<StringBuilder>,
    numbers: Vec<UInt64Builder>,
    writer: ArrowWriter<File>,
}

impl Rows {
    /// None yet, in a new file.
    pub(super) fn create(path: &Path) -> anyhow::Result<Self> {
        let is_text = |kind| {
            matches!(
                kind,
                Type::Text | Type::Address | Type::Protocol | Type::Network | Type::CommunityId
            )
        };
        let kinds = TcpProfile::SCHEMA.fields.iter().map(|field| field.kind);
        let (texts, numbers): (Vec<_>, Vec<_>) = kinds.partition(|kind| is_text(*kind));
        let columns = (0..texts.len() + numbers.len()).map(|index| {
            let kind = if index < texts.len() {
                DataType::Utf8
            } else {
                DataType::UInt64
            };
            Field::new(index.to_string(), kind, true)
        });
        let columns = Arc::new(Schema::new(columns.collect::<Vec<_>>()));
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_max_row_group_row_count(Some(GROUP_ROWS));
        for index in texts.len()..columns.fields().len() {
            let path = ColumnPath::from(index.to_string());
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
        let file = File::create(path).with_context(|| format!("create {}", path.display()))?;
        Ok(Self {
            texts: texts.iter().map(|_| StringBuilder::new()).collect(),
            numbers: numbers.iter().map(|_| UInt64Builder::new()).collect(),
            writer: ArrowWriter::try_new(file, columns.clone(), Some(properties.build()))?,
            columns,
        })
    }

    /// One more.
    pub(super) fn add(&mut self) -> anyhow::Result<()> {
        for text in &mut self.texts {
            text.append_value(TEXT);
        }
        for number in &mut self.numbers {
            number.append_value(NUMBER);
        }
        if self.numbers[0].len() >= BATCH_ROWS {
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> anyhow::Result<()> {
        let texts = self
            .texts
            .iter_mut()
            .map(|it| Arc::new(it.finish()) as ArrayRef);
        let numbers = self
            .numbers
            .iter_mut()
            .map(|it| Arc::new(it.finish()) as ArrayRef);
        let columns = texts.chain(numbers).collect();
        let rows = RecordBatch::try_new(self.columns.clone(), columns)?;
        Ok(self.writer.write(&rows)?)
    }
}
