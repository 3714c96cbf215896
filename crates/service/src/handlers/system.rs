//! Systems: building, listing, downloading.

use axum::response::Response;
use molbox::workflow::types::{
    MaskSelection, Notice, SelectedPart, SystemBuildRequest, SystemPreview,
};
use molbox_analysis::{Part, parts};

use super::file::{entry_to_come, provide_entry};
use super::record_text::record;
use super::task::{
    bundle, cancelled, delete_task, find, json, listed, priority, queue, with_place,
};
use crate::db::Reads;
use crate::error::{ApiError, not_ready, stored};
use crate::http::answer::{self, text};
use crate::http::call::Call;
use crate::http::download::download;
use crate::http::validate::loc;
use crate::plan::simulate::System;
use crate::plan::topology::{BadMask, selection};
use crate::plan::{build, estimate};
use crate::record::{Kind, NewTask};
use crate::structure::{Model, StructureText, check_built};

const KIND: Kind = Kind::System;

pub(crate) async fn system_submit(call: Call) -> Result<Response, ApiError> {
    let app = &call.app;
    let (request, warnings, outside) = call.readable::<SystemBuildRequest>()?;
    let warnings = with_notices(&warnings, &request)?;
    app.check_disk()?;
    if let Some(protein) = &request.protein {
        provide_entry(&call, "protein", protein).await?;
    }
    let plan = build::resolve(app, call.account(), &request, None, outside).await?;
    let task = NewTask {
        id: app.new_id(KIND.prefix()),
        account: call.account(),
        kind: KIND,
        name: request.box_name.clone(),
        parent: None,
        request: json(&request)?,
        parameters: json(&plan)?,
        seed: request.seed.map_or_else(|| app.new_seed(), |seed| seed as i64),
        warnings,
        bytes: 0,
        priority: priority(request.priority),
        created_at: app.now(),
    };
    queue(&call, task, Reads { files: plan.inputs(), reference: None }).await
}

/// The warnings about a request, JSON, with what is to be known of what it asks for.
fn with_notices(warnings: &str, request: &SystemBuildRequest) -> Result<String, ApiError> {
    let mut warnings: Vec<Notice> = stored(warnings)?;
    warnings.extend(build::notices(request));
    json(&warnings)
}

pub(crate) async fn system_check(call: Call) -> Result<Response, ApiError> {
    let app = &call.app;
    let (request, warnings, outside) = call.readable::<SystemBuildRequest>()?;
    let warnings = with_notices(&warnings, &request)?;
    let entry = match &request.protein {
        Some(protein) => entry_to_come(&call, "protein", protein).await?,
        None => None,
    };
    let format = entry.as_ref().map(|(_, format)| *format);
    let plan = build::resolve(app, call.account(), &request, format, outside).await?;
    let entry = entry.map(|(content, _)| content);
    let (estimate, warning) = estimate::of_system(app, &plan, call.account(), entry).await?;
    let mut warnings: Vec<Notice> = stored(&warnings)?;
    warnings.extend(warning);
    answer::json(&SystemPreview {
        parameters: plan.settings(&request).map_err(ApiError::internal)?,
        warnings,
        estimate: with_place(&call, KIND, priority(request.priority), estimate),
        extra: Default::default(),
    })
}

pub(crate) async fn system_list(call: Call) -> Result<Response, ApiError> {
    listed(&call, KIND).await
}

pub(crate) async fn system_view(call: Call) -> Result<Response, ApiError> {
    Ok(text(record(&call.app, &find(&call, KIND).await?)?))
}

pub(crate) async fn system_delete(call: Call) -> Result<Response, ApiError> {
    delete_task(&call, KIND).await
}

pub(crate) async fn system_cancel(call: Call) -> Result<Response, ApiError> {
    cancelled(&call, KIND).await
}

pub(crate) async fn system_download(call: Call) -> Result<Response, ApiError> {
    let row = find(&call, KIND).await?;
    let Some(layout) = bundle(&call, &row).await? else {
        let at = vec![loc("path"), loc("system_id")];
        return Err(not_ready(at, &row.id, row.status, "it can be downloaded when it has ended"));
    };
    call.note_download(&row.id).await;
    download(&call, layout, "application/zip", &format!("{}.zip", row.id))
}

pub(crate) async fn mask_view(call: Call) -> Result<Response, ApiError> {
    let row = find(&call, KIND).await?;
    check_built(&row)?;
    let mask = call.query("mask").unwrap_or_default().to_owned();
    let selection = call.in_turn(true, move |app| {
        let built = app.systems.read(&app.objects, &row.id)?;
        let topology = built.topology();
        let selection = selection(topology, built.positions(), &mask).map_err(BadMask::in_query)?;
        let residues = topology.residues_of(&selection.atoms);
        let ranges = selection.atoms.ranges().into_iter();
        let warnings = selection.warnings.iter().map(ToString::to_string);
        let cell = System::of(&row)?.cell();
        let without_images = cell.and_then(|cell| built.without_images(&mask, &cell));
        Ok(MaskSelection {
            system_id: row.id,
            atoms: selection.atoms.len() as u64,
            residues: residues.len() as u64,
            // From 1, and the last one included, as masks have them.
            ranges: ranges.map(|run| vec![run.start as u64 + 1, run.end as u64]).collect(),
            parts: parts(topology, &selection.atoms).into_iter().map(part).collect(),
            warnings: warnings.chain(without_images).collect(),
            extra: Default::default(),
        })
    });
    answer::json(&selection.await?)
}

fn part(part: Part) -> SelectedPart {
    let Part { name, first, last, residues, atoms, mask, atom_names } = part;
    SelectedPart {
        residue_name: name,
        first_residue: first,
        last_residue: last,
        residues: residues as u64,
        atoms: atoms as u64,
        mask,
        atom_names,
        extra: Default::default(),
    }
}

pub(crate) async fn system_structure(call: Call) -> Result<Response, ApiError> {
    let row = find(&call, KIND).await?;
    let is_prepared = call.query("of") == Some("prepared");
    let name =
        if is_prepared { format!("{}-prepared.cif", row.id) } else { format!("{}.cif", row.id) };
    let (id, mask) = (row.id.clone(), call.query("mask").map(str::to_owned));
    // The one that was built is kept when it has been read.
    let text = call.in_turn(!is_prepared, move |app| {
        let model = if is_prepared { Model::prepared(app, &row) } else { Model::built(app, &row) };
        StructureText::new(model?, row.id, mask.as_deref())
    });
    let text = text.await?;
    call.note_download(&id).await;
    text.answer(&call, &name)
}
