//! Functions of fathom's own: of histograms, and of networks.

use std::net::IpAddr;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, StringBuilder, UInt64Array,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{
    AggregateUDF, ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::prelude::SessionContext;
use fathom_record::Network;
use fathom_store::{HistogramColumn, histogram_type};

use super::merge::Merge;

/// What they are, for people.
pub(super) const ABOUT: [(&str, &str); 3] = [
    (
        "quantile(histogram, q)",
        "the duration in nanoseconds that a part q of all samples does not exceed, within 1.6 %; q is 0 to 1",
    ),
    (
        "merge(histogram)",
        "an aggregate: one histogram with the samples of all",
    ),
    (
        "prefix(address, bits)",
        "the network of an address, such as 10.1.0.0/16; of IPv4, 32 bits at most",
    ),
];

pub(super) fn register(context: &SessionContext) {
    context.register_udf(ScalarUDF::from(Quantile::new()));
    context.register_udf(ScalarUDF::from(Prefix::new()));
    context.register_udaf(AggregateUDF::from(Merge::new()));
}

/// `quantile(histogram, q)`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Quantile {
    signature: Signature,
}

impl Quantile {
    fn new() -> Self {
        let arguments = vec![histogram_type(), DataType::Float64];
        Self {
            signature: Signature::exact(arguments, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Quantile {
    fn name(&self) -> &'static str {
        "quantile"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::UInt64)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&arguments.args)?;
        let histograms = histograms(&arrays[0])?;
        let parts: &Float64Array = arrays[1].as_primitive::<Float64Type>();
        let quantiles = (0..parts.len()).map(|row| {
            let part = parts.is_valid(row).then(|| parts.value(row))?;
            histograms.histogram(row)?.quantile(part)
        });
        let quantiles: UInt64Array = quantiles.collect();
        Ok(ColumnarValue::Array(Arc::new(quantiles)))
    }
}

/// The histograms of a column.
///
/// # Errors
/// When it has others.
pub(super) fn histograms(column: &ArrayRef) -> Result<HistogramColumn<'_>> {
    let histograms = column.as_list_opt().and_then(HistogramColumn::of);
    let Some(histograms) = histograms else {
        return exec_err!("it is no histogram: its type is {}", column.data_type());
    };
    Ok(histograms)
}

/// `prefix(address, bits)`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Prefix {
    signature: Signature,
}

impl Prefix {
    fn new() -> Self {
        let arguments = vec![DataType::Utf8, DataType::Int64];
        Self {
            signature: Signature::exact(arguments, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Prefix {
    fn name(&self) -> &'static str {
        "prefix"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&arguments.args)?;
        let texts = cast(&arrays[0], &DataType::Utf8)?;
        let addresses = texts.as_string::<i32>();
        let bits: &Int64Array = arrays[1].as_primitive::<Int64Type>();
        let mut networks = StringBuilder::new();
        for row in 0..addresses.len() {
            let is_there = addresses.is_valid(row) && bits.is_valid(row);
            let network = is_there.then(|| network(addresses.value(row), bits.value(row)));
            networks.append_option(network.flatten().map(|network| network.to_string()));
        }
        Ok(ColumnarValue::Array(Arc::new(networks.finish())))
    }
}

/// That of an address with its first bits; `None` where the text is no address.
fn network(address: &str, bits: i64) -> Option<Network> {
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = u8::try_from(bits.clamp(0, most)).ok()?;
    Network::new(address, bits).ok()
}
