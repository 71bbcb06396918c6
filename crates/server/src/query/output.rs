//! Answers, in the format that was asked for.

use std::io::Write;

use datafusion::arrow::csv;
use datafusion::arrow::json::LineDelimitedWriter;
use datafusion::arrow::util::pretty::pretty_format_batches;
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
    Ok(writeln!(output, "{}", pretty_format_batches(&all)?)?)
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
    while let Some(some) = rows.next().await {
        writer.write(&some?)?;
    }
    Ok(())
}

async fn parquet(mut rows: SendableRecordBatchStream, output: &mut Held) -> anyhow::Result<()> {
    let mut writer = ArrowWriter::try_new(output, rows.schema(), None)?;
    while let Some(some) = rows.next().await {
        writer.write(&some?)?;
    }
    writer.close()?;
    Ok(())
}
