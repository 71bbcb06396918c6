//! What files of this machine say of addresses: names of networks, and autonomous systems. A query
//! asks them, so what it says follows the files, also of records from before.

use std::collections::HashMap;
use std::fs;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use datafusion::arrow::array::{ArrayRef, AsArray, StringArray, UInt32Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::prelude::SessionContext;
use fathom_record::NetworkNames;
use maxminddb::{Reader, geoip2};

/// What they are, for people.
pub(super) const ABOUT: [(&str, &str); 3] = [
    (
        "network_name(address)",
        "what the network of an address is called; needs --networks",
    ),
    (
        "asn(address)",
        "the number of the autonomous system that an address is in; needs --asn",
    ),
    ("as_name(address)", "who has that system; needs --asn"),
];

/// The files that were named.
#[derive(Debug, Default)]
pub(super) struct AddressFiles {
    networks: Option<NetworkNames>,
    systems: Option<Reader<Vec<u8>>>,
}

impl AddressFiles {
    /// Reads them whole.
    ///
    /// # Errors
    /// When one cannot be read, or is none of its kind.
    pub(super) fn open(networks: Option<&Path>, systems: Option<&Path>) -> anyhow::Result<Self> {
        let names = networks.map(|path| {
            let describe = || format!("cannot read names of networks from {}", path.display());
            let table = fs::read_to_string(path).with_context(describe)?;
            NetworkNames::parse(&table).with_context(describe)
        });
        let reader = systems.map(|path| {
            let describe = || format!("cannot read numbers of systems from {}", path.display());
            Reader::open_readfile(path).with_context(describe)
        });
        Ok(Self {
            networks: names.transpose()?,
            systems: reader.transpose()?,
        })
    }

    /// Was a file with names of networks given?
    pub(super) fn has_networks(&self) -> bool {
        self.networks.is_some()
    }

    fn network_name(&self, address: IpAddr) -> Option<String> {
        let names = self.networks.as_ref()?;
        names.of(address).map(str::to_owned)
    }

    fn system(&self, address: IpAddr) -> Option<geoip2::Asn<'_>> {
        let found = self.systems.as_ref()?.lookup(address).ok()?;
        found.decode().ok()?
    }
}

pub(super) fn register(context: &SessionContext, files: &Arc<AddressFiles>) {
    for about in [About::NetworkName, About::SystemNumber, About::SystemName] {
        context.register_udf(ScalarUDF::from(OfAddress {
            about,
            files: OneFiles(files.clone()),
            signature: Signature::exact(vec![DataType::Utf8], Volatility::Immutable),
        }));
    }
}

/// What is asked of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum About {
    NetworkName,
    SystemNumber,
    SystemName,
}

/// `network_name(address)`, `asn(address)` and `as_name(address)`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OfAddress {
    about: About,
    files: OneFiles,
    signature: Signature,
}

/// The files of a query: there are no others.
#[derive(Debug, Clone)]
struct OneFiles(Arc<AddressFiles>);

impl PartialEq for OneFiles {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for OneFiles {}

impl Hash for OneFiles {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

impl ScalarUDFImpl for OfAddress {
    fn name(&self) -> &'static str {
        match self.about {
            About::NetworkName => "network_name",
            About::SystemNumber => "asn",
            About::SystemName => "as_name",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        let AddressFiles { networks, systems } = &*self.files.0;
        match self.about {
            About::NetworkName if networks.is_none() => {
                plan_err!("network_name() needs a file: name it with --networks or FATHOM_NETWORKS")
            }
            About::SystemNumber | About::SystemName if systems.is_none() => {
                plan_err!(
                    "{}() needs a file: name it with --asn or FATHOM_ASN",
                    self.name()
                )
            }
            About::SystemNumber => Ok(DataType::UInt32),
            About::NetworkName | About::SystemName => Ok(DataType::Utf8),
        }
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&arguments.args)?;
        let files = &self.files.0;
        let number = |address| files.system(address)?.autonomous_system_number;
        let owner = |address| files.system(address)?.autonomous_system_organization;
        let told: ArrayRef = match self.about {
            About::NetworkName => {
                let names = of_each(&arrays[0], |address| files.network_name(address))?;
                Arc::new(StringArray::from(names))
            }
            About::SystemNumber => Arc::new(UInt32Array::from(of_each(&arrays[0], number)?)),
            About::SystemName => Arc::new(StringArray::from(of_each(&arrays[0], owner)?)),
        };
        Ok(ColumnarValue::Array(told))
    }
}

/// Each address is looked up once: a flow has many rows. What is no address has nothing.
fn of_each<T: Clone>(
    addresses: &ArrayRef,
    look: impl Fn(IpAddr) -> Option<T>,
) -> Result<Vec<Option<T>>> {
    let texts = cast(addresses, &DataType::Utf8)?;
    let mut known: HashMap<&str, Option<T>> = HashMap::new();
    let texts = texts.as_string::<i32>().iter();
    let told = texts.map(|text| {
        let text = text?;
        let found = known.entry(text);
        let found = found.or_insert_with(|| text.parse().ok().and_then(&look));
        found.clone()
    });
    Ok(told.collect())
}
