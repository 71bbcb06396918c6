//! Answers, in the format that was asked for.

use std::fs::File;
use std::io::{self, Write};

use anyhow::Context;
use datafusion::arrow::csv;
use datafusion::arrow::json::LineDelimitedWriter;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::dataframe::DataFrame;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::parquet::arrow::ArrowWriter;
use tokio_stream::StreamExt;

use super::{Format, QueryArguments};

/// Writes an answer while it comes.
///
/// # Errors
/// When the query fails, or the answer cannot be written.
pub(super) async fn write(answer: DataFrame, arguments: &QueryArguments) -> anyhow::Result<()> {
    let rows = answer.execute_stream().await?;
    let output: Box<dyn Write + Send> = match &arguments.output {
        Some(path) => {
            let file = File::create(path);
            Box::new(file.with_context(|| format!("cannot write to {}", path.display()))?)
        }
        None => Box::new(io::stdout()),
    };
    match arguments.format {
        Format::Text => text(rows, output).await,
        Format::Json => json(rows, output).await,
        Format::Csv => csv(rows, output).await,
        Format::Parquet => parquet(rows, output).await,
    }
}

/// A table has its widths from all of its rows.
async fn text(
    mut rows: SendableRecordBatchStream,
    mut output: Box<dyn Write + Send>,
) -> anyhow::Result<()> {
    let mut all = Vec::new();
    while let Some(some) = rows.next().await {
        all.push(some?);
    }
    writeln!(output, "{}", pretty_format_batches(&all)?)?;
    Ok(output.flush()?)
}

async fn json(
    mut rows: SendableRecordBatchStream,
    output: Box<dyn Write + Send>,
) -> anyhow::Result<()> {
    let mut writer = LineDelimitedWriter::new(output);
    while let Some(some) = rows.next().await {
        writer.write(&some?)?;
    }
    writer.finish()?;
    Ok(writer.into_inner().flush()?)
}

async fn csv(
    mut rows: SendableRecordBatchStream,
    output: Box<dyn Write + Send>,
) -> anyhow::Result<()> {
    let mut writer = csv::Writer::new(output);
    while let Some(some) = rows.next().await {
        writer.write(&some?)?;
    }
    Ok(writer.into_inner().flush()?)
}

async fn parquet(
    mut rows: SendableRecordBatchStream,
    output: Box<dyn Write + Send>,
) -> anyhow::Result<()> {
    let mut writer = ArrowWriter::try_new(output, rows.schema(), None)?;
    while let Some(some) = rows.next().await {
        writer.write(&some?)?;
    }
    writer.close()?;
    Ok(())
}
