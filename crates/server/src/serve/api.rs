//! The interface: what can be asked, and how it is described.

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::{Json, routing};
use bytes::Bytes;
use serde::Deserialize;
use utoipa::openapi::{InfoBuilder, OpenApi, OpenApiBuilder};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::activity::{self, Activity, ServiceAsked, Share};
use super::assets::asset;
use super::heat::{self, Heat, HeatAsked};
use super::problem::Problem;
use super::questions::{Asked, When};
use super::sql::{self, StatementAnswer, StatementAsked};
use super::{Shared, table};
use crate::explain::{self, Explanation, Subject};
use crate::lists::flow::{self, FlowAnswer, FlowQuestion};
use crate::lists::{self, Answer, List, Question};

const PREFIX: &str = "/api/v1";
/// Rows of a list, where nobody says how many.
const USUAL_ROWS: usize = 100;

type Common = State<Arc<Shared>>;

/// All routes.
pub(super) fn routes(shared: Arc<Shared>) -> Router {
    let about = InfoBuilder::new()
        .title("fathom serve")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some("What a store of fathom has. Durations are in nanoseconds, times are RFC 3339. The page uses nothing else."));
    let described = OpenApiBuilder::new().info(about.build()).build();
    let (routes, described) = OpenApiRouter::with_openapi(described)
        .nest(
            PREFIX,
            OpenApiRouter::new()
                .routes(routes!(list))
                .routes(routes!(one_flow))
                .routes(routes!(explanation))
                .routes(routes!(heat_map))
                .routes(routes!(all_activity))
                .routes(routes!(service_shares))
                .routes(routes!(statement)),
        )
        .with_state(shared)
        .split_for_parts();
    let described = Arc::new(described);
    let description = move || async move { Json::<OpenApi>(OpenApi::clone(&described)) };
    routes
        .route("/api/v1/openapi.json", routing::get(description))
        .fallback(routing::get(asset))
}

fn json(bytes: Bytes) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], bytes).into_response()
}

/// Which rows of a list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ListAsked {
    /// Only rows in which a text, an address or a port contains this, in letters of either case.
    #[param(max_length = 200)]
    filter: Option<String>,
    /// The column by which they go, greatest first; each list has a usual one.
    sort: Option<String>,
    /// The most rows; 100 without it.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// How the answer is written; JSON without it.
    #[param(inline)]
    format: Option<Format>,
}

/// How a list is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Format {
    Json,
    Csv,
}

/// The rows of a list: flows, hops, servers, connections, dns, hosts, networks.
#[utoipa::path(
    get, path = "/lists/{list}",
    params(("list" = inline(List), Path, description = "What a row stands for."), When, ListAsked),
    responses(
        (status = 200, description = "The rows.", content((Answer = "application/json"), (String = "text/csv"))),
        (status = "default", description = "Why not.", body = Problem),
    ),
)]
async fn list(
    State(shared): Common,
    list: Result<Path<List>, PathRejection>,
    uri: Uri,
    Asked(when): Asked<When>,
    Asked(asked): Asked<ListAsked>,
) -> Result<Response, Problem> {
    let Path(list) = list?;
    let limit = asked.limit.unwrap_or(USUAL_ROWS);
    if !(1..=lists::MOST_ROWS).contains(&limit) {
        return Err(Problem::wrong("`limit` is 1 to 1000"));
    }
    let filter = asked.filter.unwrap_or_default();
    if filter.chars().count() > 200 {
        return Err(Problem::wrong("`filter` has 200 characters at most"));
    }
    let sort = list.sort_column(asked.sort.as_deref());
    sort.map_err(|error| Problem::wrong(error.to_string()))?;
    let range = when.range()?;
    let question = Question {
        list,
        range,
        filter,
        sort: asked.sort,
        limit,
    };
    let answering = Box::pin(async { Ok(lists::answer(&shared.engine, &question).await?) });
    if asked.format != Some(Format::Csv) {
        let answer = shared.answer(&uri.to_string(), range, answering).await?;
        return Ok(json(answer));
    }
    let answer = shared.in_turn(answering).await?;
    let name = format!("attachment; filename=\"{list:?}.csv\"").to_lowercase();
    let headers = [
        (header::CONTENT_TYPE, "text/csv; charset=utf-8".to_owned()),
        (header::CONTENT_DISPOSITION, name),
    ];
    Ok((headers, table::csv_of(&answer)?).into_response())
}

/// Which flow.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct FlowAsked {
    /// Its Community ID.
    community_id: String,
    /// Who observed it; whoever did last, without it.
    host: Option<String>,
}

/// One flow over time, the routers on its path, and what happened to it.
#[utoipa::path(
    get, path = "/flow", params(FlowAsked, When),
    responses(
        (status = 200, description = "The flow.", body = FlowAnswer),
        (status = "default", description = "Why not.", body = Problem),
    ),
)]
async fn one_flow(
    State(shared): Common,
    uri: Uri,
    Asked(asked): Asked<FlowAsked>,
    Asked(when): Asked<When>,
) -> Result<Response, Problem> {
    let range = when.range()?;
    let question = FlowQuestion {
        community_id: asked.community_id,
        host: asked.host,
        range,
    };
    let answering = Box::pin(async {
        let flow = flow::answer(&shared.engine, &question).await?;
        flow.ok_or_else(|| {
            let words = "there are no records of this flow in this range";
            Problem::new(StatusCode::NOT_FOUND, words)
        })
    });
    Ok(json(
        shared.answer(&uri.to_string(), range, answering).await?,
    ))
}

/// Whose latency: one of these.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ExplanationAsked {
    /// A flow: its Community ID, or both ends, as in `192.0.2.7:40312-198.51.100.1:443`; an end may
    /// be a network.
    flow: Option<String>,
    /// A host: its address, its network, or the name by which it measures.
    host: Option<String>,
    /// A service: `ADDRESS:PORT`, an address, or `:PORT`.
    service: Option<String>,
}

impl ExplanationAsked {
    fn subject(self) -> Result<Subject, Problem> {
        let subject = match (self.flow, self.host, self.service) {
            (Some(flow), None, None) => Subject::flow(&flow),
            (None, Some(host), None) => Subject::host(&host),
            (None, None, Some(service)) => service.parse().map(Subject::Service),
            _ => Err("name one of `flow`, `host` and `service`".to_owned()),
        };
        subject.map_err(Problem::wrong)
    }
}

/// Where the latency of a flow, a host or a service comes from.
#[utoipa::path(
    get, path = "/explain", params(ExplanationAsked, When),
    responses(
        (status = 200, description = "The explanation.", body = Explanation),
        (status = "default", description = "Why not.", body = Problem),
    ),
)]
async fn explanation(
    State(shared): Common,
    uri: Uri,
    Asked(asked): Asked<ExplanationAsked>,
    Asked(when): Asked<When>,
) -> Result<Response, Problem> {
    let range = when.range()?;
    let subject = asked.subject()?;
    let answering = Box::pin(async {
        let explanation = explain::explain(&shared.engine, &subject, range).await?;
        explanation.ok_or_else(|| {
            let words = "nothing was measured of it in this range";
            Problem::new(StatusCode::NOT_FOUND, words)
        })
    });
    Ok(json(
        shared.answer(&uri.to_string(), range, answering).await?,
    ))
}

/// How often which latency was measured when.
#[utoipa::path(
    get, path = "/heat", params(HeatAsked, When),
    responses(
        (status = 200, description = "The heat map.", body = Heat),
        (status = "default", description = "Why not.", body = Problem),
    ),
)]
async fn heat_map(
    State(shared): Common,
    uri: Uri,
    Asked(asked): Asked<HeatAsked>,
    Asked(when): Asked<When>,
) -> Result<Response, Problem> {
    let range = when.range()?;
    let answering = async { Ok(heat::heat(&shared.engine, &asked, range).await?) };
    Ok(json(
        shared.answer(&uri.to_string(), range, answering).await?,
    ))
}

/// What all flows did together over time.
#[utoipa::path(
    get, path = "/activity", params(When),
    responses(
        (status = 200, description = "The activity.", body = Activity),
        (status = "default", description = "Why not.", body = Problem),
    ),
)]
async fn all_activity(
    State(shared): Common,
    uri: Uri,
    Asked(when): Asked<When>,
) -> Result<Response, Problem> {
    let range = when.range()?;
    let answering = async { Ok(activity::activity(&shared.engine, range).await?) };
    Ok(json(
        shared.answer(&uri.to_string(), range, answering).await?,
    ))
}

/// How a balancer shares a service between its servers.
#[utoipa::path(
    get, path = "/shares", params(ServiceAsked, When),
    responses(
        (status = 200, description = "The servers.", body = Vec<Share>),
        (status = "default", description = "Why not.", body = Problem),
    ),
)]
async fn service_shares(
    State(shared): Common,
    uri: Uri,
    Asked(asked): Asked<ServiceAsked>,
    Asked(when): Asked<When>,
) -> Result<Response, Problem> {
    let range = when.range()?;
    let answering = async { Ok(activity::shares(&shared.engine, &asked, range).await?) };
    Ok(json(
        shared.answer(&uri.to_string(), range, answering).await?,
    ))
}

/// The answer to a statement in SQL, which changes nothing.
#[utoipa::path(
    post, path = "/sql", request_body = StatementAsked,
    responses(
        (status = 200, description = "The answer.", body = StatementAnswer),
        (status = "default", description = "Why not.", body = Problem),
    ),
)]
async fn statement(
    State(shared): Common,
    asked: Result<Json<StatementAsked>, JsonRejection>,
) -> Result<Json<StatementAnswer>, Problem> {
    let Json(asked) = asked?;
    Ok(Json(sql::answer(&shared, &asked).await?))
}
