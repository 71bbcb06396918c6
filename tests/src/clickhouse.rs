//! Debian's ClickHouse.

use std::fs;
use std::path::{Path, PathBuf};

/// Makes the directory of a server that listens on loopback at these ports (HTTP, own protocol),
/// with `more` elements in its configuration file, which is returned.
pub fn clickhouse(folder: &Path, (http, own): (u16, u16), more: &str) -> anyhow::Result<PathBuf> {
    for name in ["data", "tmp"] {
        fs::create_dir_all(folder.join(name))?;
    }
    let path = folder.display();
    let config = format!(
        "<yandex><logger><level>warning</level><console>1</console></logger>\
         <http_port>{http}</http_port><tcp_port>{own}</tcp_port><listen_host>127.0.0.1</listen_host>\
         <path>{path}/data/</path><tmp_path>{path}/tmp/</tmp_path>\
         <users_config>{path}/users.xml</users_config><default_profile>default</default_profile>\
         <default_database>default</default_database><mark_cache_size>5000000</mark_cache_size>\
         <timezone>UTC</timezone>{more}</yandex>"
    );
    let users = "<yandex><profiles><default/></profiles><users><default><password/>\
         <networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota>\
         </default></users><quotas><default/></quotas></yandex>";
    let file = folder.join("config.xml");
    fs::write(&file, config)?;
    fs::write(folder.join("users.xml"), users)?;
    Ok(file)
}
