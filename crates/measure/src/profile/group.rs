//! The control group of a socket, and what it says of whose the socket is.

use std::sync::Arc;

use fathom_record::parts::{Part, Shape};
use fathom_record::{Record, Value, Visitor, record};

use super::container::owner;

record! {
    /// Where a socket belongs on its host.
    #[record = "profile_group"]
    #[derive(Debug, Clone, PartialEq)]
    pub struct ControlGroup {
        /// The control group of the socket: its path, or its number if it has none any more.
        #[field(absent, own_ipfix = 156)]
        pub cgroup: Arc<str>,
        /// The container, by the path of the control group: its id, or its name where its runtime
        /// (LXC, systemd-nspawn) has only names.
        #[field(absent, own_ipfix = 360)]
        pub container: Option<Arc<str>>,
        /// What runs the container: `docker`, `containerd`, `cri-o`, `podman`, `lxc` or
        /// `systemd-nspawn`; absent where the path does not say it.
        #[field(absent, own_ipfix = 361)]
        pub container_runtime: Option<&'static str>,
        /// The pod: its UID in Kubernetes, its id in Podman.
        #[field(absent, own_ipfix = 362)]
        pub pod: Option<Arc<str>>,
        /// The service or scope of systemd, without the scopes that runtimes make for containers.
        #[field(absent, own_ipfix = 363)]
        pub systemd_unit: Option<Arc<str>>,
    }
}

impl ControlGroup {
    pub(super) fn at(path: &str) -> Self {
        let owner = owner(path);
        Self {
            cgroup: path.into(),
            container: owner.container.as_deref().map(Arc::from),
            container_runtime: owner.runtime,
            pod: owner.pod.as_deref().map(Arc::from),
            systemd_unit: owner.unit.map(Arc::from),
        }
    }
}

/// The control group, where there is one; many records share it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct InGroup(pub Option<Arc<ControlGroup>>);

impl Part for InGroup {
    const SHAPE: Shape = Shape::Group(ControlGroup::SCHEMA.fields);

    fn part(&self, index: usize) -> Value<'_> {
        self.0
            .as_ref()
            .map_or(Value::Missing, |group| group.value(index))
    }

    fn visit(&self, index: usize, visitor: &mut dyn Visitor) {
        if let Some(group) = &self.0 {
            group.visit(&mut Behind(index, visitor));
        }
    }
}

/// Fields of a group stand behind others in the record that has them.
pub(super) struct Behind<'a>(pub(super) usize, pub(super) &'a mut dyn Visitor);

impl Visitor for Behind<'_> {
    fn value(&mut self, index: usize, value: Value<'_>) {
        self.1.value(self.0 + index, value);
    }
}
