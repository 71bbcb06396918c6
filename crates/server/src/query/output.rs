//! Answers, in the format that was asked for.

use std::io::Write;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, StringArray};
use datafusion::arrow::csv;
use datafusion::arrow::datatypes::FieldRef;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json::LineDelimitedWriter;
use datafusion::arrow::json::writer::{EncoderOptions, make_encoder};
use datafusion::arrow::util::pretty::pretty_format_batches_with_schema;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::parquet::arrow::ArrowWriter;
use tokio_stream::StreamExt;

use super::Format;
use super::held::Held;

/// Writes an answer while it comes.
///
/// # Errors
/// When the query fails, or the answer cannot be written.
pub(super) async fn write(
    rows: SendableRecordBatchStream,
    format: Format,
    output: &mut Held,
) -> anyhow::Result<()> {
    match format {
        Format::Text => text(rows, output).await,
        Format::Json => json(rows, output).await,
        Format::Csv => csv(rows, output).await,
        Format::Parquet => parquet(rows, output).await,
    }?;
    Ok(output.finish()?)
}

/// A table has its widths from all of its rows.
async fn text(mut rows: SendableRecordBatchStream, output: &mut Held) -> anyhow::Result<()> {
    let mut all = Vec::new();
    while let Some(some) = rows.next().await {
        all.push(some?);
    }
    Ok(writeln!(
        output,
        "{}",
        pretty_format_batches_with_schema(rows.schema(), &all)?
    )?)
}

async fn json(mut rows: SendableRecordBatchStream, output: &mut Held) -> anyhow::Result<()> {
    let mut writer = LineDelimitedWriter::new(output);
    while let Some(some) = rows.next().await {
        writer.write(&some?)?;
    }
    Ok(writer.finish()?)
}

async fn csv(mut rows: SendableRecordBatchStream, output: &mut Held) -> anyhow::Result<()> {
    let mut writer = csv::Writer::new(output);
    // Of no rows at all there is a header, too.
    writer.write(&flat(&RecordBatch::new_empty(rows.schema()))?)?;
    while let Some(some) = rows.next().await {
        writer.write(&flat(&some?)?)?;
    }
    Ok(())
}

/// CSV knows no lists: a histogram is the text that it is in JSON.
fn flat(rows: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let schema = rows.schema();
    let columns = schema.fields().iter().zip(rows.columns());
    let columns = columns.map(|(field, column)| {
        let is_nested = field.data_type().is_nested();
        let column = if is_nested {
            Arc::new(in_json(field, column)?)
        } else {
            Arc::clone(column)
        };
        Ok((field.name(), column, true))
    });
    let columns = columns.collect::<Result<Vec<_>, ArrowError>>()?;
    RecordBatch::try_from_iter_with_nullable(columns)
}

fn in_json(field: &FieldRef, column: &ArrayRef) -> Result<StringArray, ArrowError> {
    let options = EncoderOptions::default();
    let mut encoder = make_encoder(field, column, &options)?;
    let texts = (0..column.len()).map(|row| {
        let mut text = Vec::new();
        let is_there = !encoder.is_null(row);
        is_there.then(|| {
            encoder.encode(row, &mut text);
            String::from_utf8_lossy(&text).into_owned()
        })
    });
    Ok(texts.collect())
}

async fn parquet(mut rows: SendableRecordBatchStream, output: &mut Held) -> anyhow::Result<()> {
    let mut writer = ArrowWriter::try_new(output, rows.schema(), None)?;
    while let Some(some) = rows.next().await {
        writer.write(&some?)?;
    }
    writer.close()?;
    Ok(())
}
