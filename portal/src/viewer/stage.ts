//! The only file that knows Mol*: a canvas with a structure, and what is pointed at.
import {
  Model, Queries, type Structure, StructureElement, StructureProperties as Of, type Trajectory,
} from "molstar/lib/mol-model/structure.js";
import { Shape } from "molstar/lib/mol-model/shape.js";
import { AtomWeight } from "molstar/lib/mol-model/structure/model/properties/atomic/measures.js";
import { ModelSymmetry } from "molstar/lib/mol-model-formats/structure/property/symmetry.js";
import { Mesh } from "molstar/lib/mol-geo/geometry/mesh/mesh.js";
import { MeshBuilder } from "molstar/lib/mol-geo/geometry/mesh/mesh-builder.js";
import { addFixedCountDashedCylinder } from "molstar/lib/mol-geo/geometry/mesh/builder/cylinder.js";
import { BoxCage } from "molstar/lib/mol-geo/primitive/box.js";
import { cloneCage, transformCage } from "molstar/lib/mol-geo/primitive/cage.js";
import { Spacegroup, SpacegroupCell, Sphere3D } from "molstar/lib/mol-math/geometry.js";
import { Mat4, Vec3 } from "molstar/lib/mol-math/linear-algebra.js";
import { Camera } from "molstar/lib/mol-canvas3d/camera.js";
import type { Canvas3D, Canvas3DProps } from "molstar/lib/mol-canvas3d/canvas3d.js";
import { PluginContext } from "molstar/lib/mol-plugin/context.js";
import { DefaultPluginSpec } from "molstar/lib/mol-plugin/spec.js";
import type { StructureBuilder } from "molstar/lib/mol-plugin-state/builder/structure.js";
import type { StaticStructureComponentType } from "molstar/lib/mol-plugin-state/helpers/structure-component.js";
import { StructureSelectionQueries } from "molstar/lib/mol-plugin-state/helpers/structure-selection-query.js";
import type { StructureRepresentationBuiltInProps } from "molstar/lib/mol-plugin-state/helpers/structure-representation-params.js";
import { PluginStateObject as Objects, PluginStateTransform } from "molstar/lib/mol-plugin-state/objects.js";
import { StateTransforms } from "molstar/lib/mol-plugin-state/transforms.js";
import { MolScriptBuilder } from "molstar/lib/mol-script/language/builder.js";
import type { Expression } from "molstar/lib/mol-script/language/expression.js";
import { Task } from "molstar/lib/mol-task/index.js";
import { Color } from "molstar/lib/mol-util/color/index.js";
import { UUID } from "molstar/lib/mol-util/index.js";
import { ParamDefinition as Param } from "molstar/lib/mol-util/param-definition.js";

import type { Cell, Dcd, Frame } from "./dcd.ts";
import { type Atoms, lengthOf, type Line, linesOf, type Measured, nearestIn, type Run } from "./measure.ts";

/** Formats that a structure can be shown from, as the service names them, with Mol*'s names. */
const FORMATS = { pdb: "pdb", cif: "mmcif", mmcif: "mmcif", sdf: "sdf", mol: "mol", mol2: "mol2" } as const;
export type Format = keyof typeof FORMATS;

/** What a structure has. */
export type Shown = { atoms: number; hasWater: boolean; hasBox: boolean };

/** A residue as its author calls it; the number with its insertion code. */
export type Residue = { chain_id: string; residue_id: string; residue_name: string };

/** An atom that was clicked at; its chain and residue as the author has them. */
export type Picked = {
  atom: string;
  residueName: string;
  /** Its number with the insertion code. */
  residue: string;
  chain: string;
  /** The residue's number as masks count, in a structure that the service made. */
  maskResidue: number;
  /** Those of all residues of its chain that are shown. */
  maskChain: () => number[];
};

type Triple = readonly [number, number, number];

/** A box as it would be built: its vectors by rows and its middle, in Å. */
export type BoxPlan = { vectors: readonly [Triple, Triple, Triple]; middle: Triple };

/** A molecule that can be put elsewhere. */
export type Movable = {
  /** The mean of its heavy atoms where its file has them, in Å. */
  centre: readonly number[];
  /** Puts it to where a matrix by columns leads from there. */
  place: (matrix: readonly number[]) => Promise<void>;
};

/** With fewer residues a ribbon shows less than the atoms do. */
const SHORTEST_RIBBON = 8;
const MOST_BALLS = 5000;
/** How often a processor looks for what is under the mouse. */
const SEEKS_A_SECOND = 2;
/** How many atoms a processor draws in fine detail, and in coarse. */
const MOST_FINE = 1000;
const MOST_COARSE = 20_000;

const BALLS: StructureRepresentationBuiltInProps = { type: "ball-and-stick", color: "element-symbol" };
const DRESS: [StaticStructureComponentType, StructureRepresentationBuiltInProps][] = [
  ["polymer", { type: "cartoon", color: "chain-id" }],
  ["ligand", BALLS],
  ["non-standard", BALLS],
  ["branched", BALLS],
  ["lipid", BALLS],
  ["ion", { type: "spacefill", color: "element-symbol", typeParams: { sizeFactor: 0.5 } }],
];
/** Ball and stick of a whole box takes minutes where there is no graphics card. */
const POINTS: StructureRepresentationBuiltInProps = { type: "point", color: "element-symbol" };

const { all, water } = StructureSelectionQueries;
const NOT_WATER = MolScriptBuilder.struct.modifier.exceptBy({ 0: all.expression, by: water.expression });

/** What is drawn and taken away again. */
const WATER_POINTS = "water-points";
const BOX = "Periodic box";
const LINES = "Lines between atoms";
const DASH = 0.4;

const NO_ATOM = "There is no atom in this file that could be shown.";

const OFF = { name: "off", params: {} } as const;

/** Spacegroups of frames that have a cell of their own; Mol* knows one for a whole trajectory. */
const ofFrames = new WeakMap<Model, Spacegroup>();

/** A trajectory as Mol* asks for it: a model of a frame, made when it is asked for. */
class RangedTrajectory implements Trajectory {
  readonly representative: Model;
  readonly frameCount: number;
  readonly duration: number;
  readonly #dcd: Dcd;

  constructor(representative: Model, dcd: Dcd) {
    this.representative = representative;
    this.frameCount = this.duration = dcd.frames;
    this.#dcd = dcd;
  }

  getFrameAtIndex(index: number): Task<Model> {
    return Task.create("Read a frame", async () =>
      modelAt(this.representative, await this.#dcd.frame(index), index, this.frameCount));
  }
}

function modelAt(base: Model, { x, y, z, cell }: Frame, index: number, size: number): Model {
  const atomicConformation = Model.getAtomicConformationFromFrame(base, {
    elementCount: x.length, time: { value: index, unit: "step" }, x, y, z, xyzOrdering: { isIdentity: true },
  });
  const model: Model = {
    ...base, id: UUID.create22(), modelNum: index, atomicConformation, _dynamicPropertyData: Object.create(null),
  };
  Model.TrajectoryInfo.set(model, { index, size });
  if (cell) ofFrames.set(model, spacegroupOf(cell));
  return model;
}

/** Puts the frames of a DCD file into the place of the one that the structure has. */
const FromDcd = PluginStateTransform.BuiltIn({
  name: "molbox-from-dcd",
  display: { name: "Frames by ranges" },
  from: Objects.Molecule.Trajectory,
  to: Objects.Molecule.Trajectory,
  params: { dcd: Param.Value<Dcd | undefined>(undefined, { isHidden: true }) },
})({
  apply: ({ a, params: { dcd } }) => Task.create("Frames", async () => {
    if (!dcd) return a;
    return new Objects.Molecule.Trajectory(new RangedTrajectory(a.data.representative, dcd), { label: a.label });
  }),
});

/** The edges of the periodic box of a model. */
const BoxOf = PluginStateTransform.BuiltIn({
  name: "molbox-box-of",
  display: { name: BOX },
  from: Objects.Molecule.Model,
  to: Objects.Shape.Provider,
})({
  apply: ({ a }) => Task.create(BOX, async () => new Objects.Shape.Provider({
    label: BOX,
    data: a.data,
    params: Mesh.Params,
    getShape: (_, model) => Shape.create(BOX, model, edgesOf(model), () => Color(0x8b949e), () => 1, () => BOX),
    geometryUtils: Mesh.Utils,
  }, { label: BOX })),
});

/** The edges of a box that nothing fills yet. */
const BoxAt = PluginStateTransform.BuiltIn({
  name: "molbox-box-at",
  display: { name: BOX },
  from: Objects.Root,
  to: Objects.Shape.Provider,
  params: { box: Param.Value<BoxPlan | undefined>(undefined, { isHidden: true }) },
})({
  apply: ({ params: { box } }) => Task.create(BOX, async () => new Objects.Shape.Provider({
    label: BOX,
    data: box,
    params: Mesh.Params,
    getShape: (_, box) => Shape.create(BOX, box, box ? edgesOfPlan(box) : Mesh.createEmpty(), () => Color(0x8b949e), () => 1, () => BOX),
    geometryUtils: Mesh.Utils,
  }, { label: BOX })),
});

/** What is measured in a model, as dashed lines. */
const LinesOf = PluginStateTransform.BuiltIn({
  name: "molbox-lines-of",
  display: { name: LINES },
  from: Objects.Molecule.Model,
  to: Objects.Shape.Provider,
  params: {
    measured: Param.Value<Measured | undefined>(undefined, { isHidden: true }),
    told: Param.Value<(lines: readonly Line[]) => void>(() => undefined, { isHidden: true }),
  },
})({
  apply: ({ a, params: { measured, told } }) => Task.create(LINES, async () => {
    const lines = measured ? linesOf(measured, atomsOf(a.data)) : [];
    told(lines);
    return new Objects.Shape.Provider({
      label: LINES,
      data: lines,
      params: Mesh.Params,
      getShape: (_, lines) => Shape.create(LINES, lines, dashesOf(lines), () => Color(0xe69f00), () => 1, () => LINES),
      geometryUtils: Mesh.Utils,
    }, { label: LINES });
  }),
});

export class Stage {
  readonly #plugin: PluginContext;
  readonly #scheme = matchMedia("(prefers-color-scheme: dark)");
  #model: string | undefined;
  #dcd: Dcd | undefined;
  #centre: Vec3 | undefined;
  #water: string | undefined;
  /** Where it is decided which chains are drawn, and which they are. */
  #kept: { ref: string; names: string } | undefined;
  /** What a still picture has, while it is left out. */
  #still: Pick<Canvas3DProps, "multiSample" | "postprocessing"> | undefined;
  /** Whether shades and smoothing would take seconds, so that there are none. */
  readonly #isSlow: boolean;
  /** How far away what is of size 1 has to be, to be seen whole in a picture of the present shape. */
  #away: number | undefined;

  private constructor(plugin: PluginContext, hasAxes: boolean) {
    this.#plugin = plugin;
    this.#isSlow = plugin.canvas3d !== undefined && isSoftware(plugin.canvas3d.webgl.gl);
    if (this.#isSlow) {
      this.#dress(false);
      // What is under the mouse is found by drawing, too.
      plugin.canvas3d?.setProps({ interaction: { maxFps: SEEKS_A_SECOND } });
    }
    if (!hasAxes) plugin.canvas3d?.setProps({ camera: { helper: { axes: OFF } } });
    plugin.canvas3d?.resized.subscribe(this.#refit);
    this.#scheme.addEventListener("change", this.#colour);
    this.#colour();
  }

  /** A canvas that fills `target`, perhaps with the axes in its corner; rejects when the browser has no WebGL. */
  static async mount(target: HTMLElement, hasAxes = false): Promise<Stage> {
    const plugin = new PluginContext(DefaultPluginSpec());
    await plugin.init();
    if (await plugin.mountAsync(target)) {
      target.addEventListener("pointerup", () => seekAnew(plugin.canvas3d), true);
      return new Stage(plugin, hasAxes);
    }
    plugin.dispose();
    throw new Error("This browser has no WebGL, which drawing molecules needs. Everything else works.");
  }

  /**
   * Shows a structure in the place of what was there: its first model, or the first frame of `dcd`; of some
   * chains alone, if `chains` are given, for which `keep` may put others.
   */
  async show(text: string, format: Format, dcd?: Dcd, chains?: readonly string[]): Promise<Shown> {
    const { structure: builder } = this.#plugin.builders;
    await this.#plugin.clear();
    const parsed = await this.#parsed(text, format);
    if (!parsed?.obj) throw new Error(NO_ATOM);
    const inFile = parsed.obj.data.representative.atomicHierarchy.atoms._rowCount;
    if (dcd && dcd.atoms !== inFile) {
      throw new Error(`The trajectory has ${dcd.atoms} atoms and the structure ${inFile}; they cannot be shown together.`);
    }
    const trajectory = dcd && dcd.frames > 0
      ? await this.#plugin.build().to(parsed).apply(FromDcd, { dcd }).commit() : parsed;
    const model = await builder.createModel(trajectory);
    this.#model = model.ref;
    this.#dcd = dcd;
    this.#centre = dcd && dcd.frames > 0 ? centreOf(await dcd.frame(0)) : undefined;
    const whole = await builder.createStructure(model);
    const made = chains ? await this.#chains(whole, chains) : whole;
    const atoms = made.obj?.data?.elementCount ?? 0;
    if (atoms === 0) throw new Error(chains && chains.length > 0 ? `There is no chain ${chains.join(" or ")} in this file.` : NO_ATOM);
    if (made.obj && hasRibbon(made.obj.data)) {
      for (const [kind, dress] of DRESS) {
        const part = await builder.tryCreateComponentStatic(made, kind);
        if (part) await builder.representation.addRepresentation(part, this.#fit(dress, atoms));
      }
    } else {
      // Small ones are shown whole, for their caps belong to no kind; nothing but water is shown as it is.
      const shown = await builder.tryCreateComponentFromExpression(made, NOT_WATER, "not-water")
        ?? await builder.tryCreateComponentStatic(made, "all");
      if (shown) await builder.representation.addRepresentation(shown, BALLS);
    }
    const water = await builder.tryCreateComponentStatic(made, "water");
    this.#water = water?.ref;
    this.#plugin.managers.camera.reset(undefined, 0);
    return { atoms, hasWater: water !== undefined, hasBox: model.obj !== undefined && boxOf(model.obj.data) !== undefined };
  }

  async #chains(whole: Awaited<ReturnType<StructureBuilder["createStructure"]>>, names: readonly string[]) {
    const part = await this.#plugin.build().to(whole)
      .apply(StateTransforms.Model.StructureSelectionFromExpression, { expression: chainsOf(names), label: "Chains" }).commit();
    this.#kept = { ref: part.ref, names: names.join() };
    return part;
  }

  /** The models of a file; none where Mol* finds none in it, which it says on the console alone. */
  async #parsed(text: string, format: Format) {
    const { structure, data } = this.#plugin.builders;
    const raw = await data.rawData({ data: text });
    return structure.parseTrajectory(raw, FORMATS[format]).catch(() => undefined);
  }

  /** Draws these chains and no others of a structure that is shown by chains, all of them if none is named; tells how many atoms they have. */
  async keep(names: readonly string[]): Promise<number> {
    const kept = this.#kept;
    if (!kept) throw new Error("the structure is not shown by chains");
    if (kept.names !== names.join()) {
      kept.names = names.join();
      await this.#plugin.build().to(kept.ref)
        .update(StateTransforms.Model.StructureSelectionFromExpression, (before) => ({ ...before, expression: chainsOf(names) })).commit();
    }
    const part = this.#plugin.state.data.cells.get(kept.ref)?.obj;
    return Objects.Molecule.Structure.is(part) ? part.data.elementCount : 0;
  }

  /** Goes to a frame of the trajectory; resolves when it is on the screen. */
  async frame(index: number): Promise<void> {
    if (this.#model === undefined || !this.#dcd) return;
    this.#follow(centreOf(await this.#dcd.frame(index)));
    await this.#plugin.build().to(this.#model)
      .update(StateTransforms.Model.ModelFromTrajectory, () => ({ modelIndex: index })).commit();
  }

  /** Leaves out shades and smoothing, for frames that follow each other; a still picture has them. */
  hurry(isOn: boolean): void {
    if (!this.#isSlow) this.#dress(!isOn);
  }

  /** As coarse as it has to be where the processor draws. */
  #fit(dress: StructureRepresentationBuiltInProps, atoms: number): StructureRepresentationBuiltInProps {
    if (!this.#isSlow || atoms <= MOST_FINE) return dress;
    const quality = atoms > MOST_COARSE ? "lowest" : "low";
    return { ...dress, typeParams: { ...dress.typeParams, quality } } as StructureRepresentationBuiltInProps;
  }

  #dress(isOn: boolean): void {
    const canvas = this.#plugin.canvas3d;
    if (!canvas || isOn === (this.#still === undefined)) return;
    const { multiSample, postprocessing } = this.#still ?? canvas.props;
    this.#still = isOn ? undefined : { multiSample, postprocessing };
    canvas.setProps(isOn ? { multiSample, postprocessing } : {
      multiSample: { ...multiSample, mode: "off" },
      postprocessing: { ...postprocessing, occlusion: OFF, antialiasing: OFF },
    });
  }

  /** Molecules are whole and not put back into the box, so they drift: the camera goes with them. */
  #follow(centre: Vec3): void {
    const camera = this.#plugin.canvas3d?.camera;
    if (camera && this.#centre) {
      const moved = Vec3.sub(Vec3(), centre, this.#centre);
      const { position, target } = camera.getSnapshot();
      camera.setState({ position: Vec3.add(Vec3(), position, moved), target: Vec3.add(Vec3(), target, moved) }, 0);
    }
    this.#centre = centre;
  }

  /** Draws the water, or takes it away. */
  async water(isOn: boolean): Promise<void> {
    if (this.#water === undefined) return;
    if (!isOn) return this.#remove(this.#water, WATER_POINTS);
    await this.#plugin.builders.structure.representation.addRepresentation(this.#water, POINTS, { tag: WATER_POINTS });
  }

  /** Shows a molecule besides, as balls, which can be put elsewhere. */
  async add(text: string, format: Format): Promise<Movable> {
    const { structure: builder } = this.#plugin.builders;
    const parsed = await this.#parsed(text, format);
    if (!parsed?.obj) throw new Error(NO_ATOM);
    const model = await builder.createModel(parsed);
    const made = await builder.createStructure(model);
    const moved = await this.#plugin.build().to(made)
      .apply(StateTransforms.Model.TransformStructureConformation, placed(Mat4.identity())).commit();
    await builder.representation.addRepresentation(moved, BALLS);
    return {
      centre: model.obj ? heavyCentreOf(model.obj.data) : [0, 0, 0],
      place: async (matrix) => {
        await this.#plugin.build().to(moved).update(placed(Mat4.fromArray(Mat4(), [...matrix], 0))).commit();
      },
    };
  }

  /** Takes away what was there, for what is added. */
  async clear(): Promise<void> {
    await this.#plugin.clear();
    this.#model = this.#dcd = this.#water = this.#kept = undefined;
  }

  /** Draws a box that is planned, in the place of another. */
  async plan(box: BoxPlan | undefined): Promise<void> {
    await this.#remove("-=root=-", BOX);
    if (!box) return;
    await this.#plugin.build().toRoot()
      .apply(BoxAt, { box }, { tags: BOX }).apply(StateTransforms.Representation.ShapeRepresentation3D).commit();
  }

  /** Draws the edges of the periodic box, or takes them away. */
  async box(isOn: boolean): Promise<void> {
    if (this.#model === undefined) return;
    if (!isOn) return this.#remove(this.#model, BOX);
    await this.#plugin.build().to(this.#model)
      .apply(BoxOf, {}, { tags: BOX }).apply(StateTransforms.Representation.ShapeRepresentation3D).commit();
    this.reset();
  }

  /** Draws what is measured in each frame from now on, and nothing else that was; tells the lines of each. */
  async measure(measured: Measured | undefined, told: (lines: readonly Line[]) => void): Promise<void> {
    if (this.#model === undefined) return;
    await this.#remove(this.#model, LINES);
    if (!measured) return;
    await this.#plugin.build().to(this.#model)
      .apply(LinesOf, { measured, told }, { tags: LINES }).apply(StateTransforms.Representation.ShapeRepresentation3D).commit();
  }

  /** Takes away what was drawn of a part under a name. */
  async #remove(part: string, tag: string): Promise<void> {
    const drawn = this.#plugin.state.data.selectQ((query) => query.byRef(part).children().withTag(tag));
    const change = this.#plugin.build();
    for (const { transform } of drawn) change.delete(transform.ref);
    await change.commit();
  }

  /** Reports what is clicked at, nothing when it is the background, and whether with shift. */
  onPick(picked: (picked: Picked | undefined, isMore: boolean) => void): void {
    this.#plugin.behaviors.interaction.click.subscribe(({ current: { loci }, modifiers }) => {
      const place = StructureElement.Loci.is(loci) ? StructureElement.Loci.getFirstLocation(loci) : undefined;
      picked(place && {
        atom: Of.atom.auth_atom_id(place),
        residueName: Of.atom.auth_comp_id(place),
        residue: numberOf(place),
        chain: Of.chain.auth_asym_id(place),
        maskResidue: Of.residue.label_seq_id(place),
        maskChain: () => residuesOfChain(place.structure, Of.chain.auth_asym_id(place)),
      }, modifiers.shift);
    });
  }

  /** Marks these atoms and no others. */
  mark(runs: readonly Run[]): void {
    this.#select((place) => {
      const number = Of.atom.id(place);
      return runs.some(([first = 0, last = 0]) => first <= number && number <= last);
    });
  }

  /** Marks these residues and no others, and goes to them; whether there is any. */
  goTo(residues: readonly Residue[]): boolean {
    const wanted = new Set(residues.map(({ chain_id, residue_id }) => `${chain_id} ${residue_id}`));
    const loci = this.#select((place) => wanted.has(
      `${Of.chain.auth_asym_id(place)} ${numberOf(place)}`,
    ));
    if (!loci || StructureElement.Loci.isEmpty(loci)) return false;
    this.#plugin.managers.camera.focusLoci(loci, { durationMs: 0 });
    return true;
  }

  #select(isMarked: (place: StructureElement.Location) => boolean): StructureElement.Loci | undefined {
    const { interactivity: { lociSelects }, structure: { hierarchy } } = this.#plugin.managers;
    const structure = hierarchy.current.structures[0]?.cell.obj?.data;
    lociSelects.deselectAll();
    if (!structure) return undefined;
    const loci = StructureElement.Loci.fromQuery(structure, Queries.generators.atoms({
      atomTest: ({ element }) => isMarked(element),
    }));
    lociSelects.select({ loci }, false);
    return loci;
  }

  /** Goes as much further away, or nearer, as a picture of another shape needs: what was seen whole still is. */
  readonly #refit = () => {
    const camera = this.#plugin.canvas3d?.camera;
    // A picture that is hidden has no shape.
    if (!camera || camera.viewport.width === 0 || camera.viewport.height === 0) return;
    const away = Camera.targetDistance(1, camera.state.mode, camera.state.fov, camera.viewport.width, camera.viewport.height);
    if (this.#away !== undefined && away !== this.#away) this.zoom(away / this.#away);
    this.#away = away;
  };

  /** Back to the whole of it. */
  reset(): void {
    this.#plugin.managers.camera.reset(undefined, 0);
  }

  /** Turns what is shown to the right and downwards, in radians, about the middle of the picture. */
  turn(across: number, down: number): void {
    const camera = this.#plugin.canvas3d?.camera;
    if (!camera) return;
    const { position, target, up } = camera.getSnapshot();
    const from = Vec3.sub(Vec3(), position, target);
    const side = Vec3.normalize(Vec3(), Vec3.cross(Vec3(), up, from));
    // The molecule stays, and the eye goes the other way about it.
    const about = Mat4.mul(Mat4(), Mat4.fromRotation(Mat4(), -across, up), Mat4.fromRotation(Mat4(), -down, side));
    camera.setState({
      position: Vec3.add(Vec3(), target, Vec3.transformMat4(Vec3(), from, about)), up: Vec3.transformMat4(Vec3(), up, about),
    }, 0);
  }

  /** Comes nearer, to this part of the distance, or goes away. */
  zoom(part: number): void {
    const camera = this.#plugin.canvas3d?.camera;
    if (!camera) return;
    const { position, target } = camera.getSnapshot();
    camera.setState({ position: Vec3.scaleAndAdd(Vec3(), target, Vec3.sub(Vec3(), position, target), part) }, 0);
  }

  /** What is on the canvas as a picture, on white. */
  async picture(): Promise<Blob> {
    this.#background(Color(0xffffff));
    const url = await this.#plugin.helpers.viewportScreenshot?.getImageDataUri();
    this.#colour();
    if (url === undefined) throw new Error("The picture could not be taken.");
    const base64 = url.slice(url.indexOf(",") + 1);
    return new Blob([Uint8Array.from(atob(base64), (character) => character.charCodeAt(0))], { type: "image/png" });
  }

  /** Gives the canvas back: a browser has no more than 16. */
  dispose(): void {
    this.#scheme.removeEventListener("change", this.#colour);
    this.#plugin.dispose();
  }

  readonly #colour = () => this.#background(Color(this.#scheme.matches ? 0x14171a : 0xfbfbfa));

  #background(backgroundColor: Color): void {
    this.#plugin.canvas3d?.setProps({ renderer: { backgroundColor } });
  }
}

/**
 * Lets the click that follows find what is under it. Mol* asks the graphics for that whenever the mouse moves, and gives
 * up on answers that take five frames; a click in the meantime would find nothing, on a busy machine none ever did.
 */
function seekAnew(canvas: Canvas3D | undefined): void {
  if (!canvas) return;
  const { pickPadding } = canvas.props;
  // Another padding is what makes it forget the answer that it waits for.
  for (const padding of [pickPadding + 1, pickPadding]) canvas.setProps({ pickPadding: padding }, true);
}

/** Whether a browser draws by its processor, for want of a graphics card. */
function isSoftware(gl: WebGLRenderingContext | WebGL2RenderingContext): boolean {
  const info = gl.getExtension("WEBGL_debug_renderer_info");
  return info !== null && /swiftshader|llvmpipe|software|basic render/i.test(String(gl.getParameter(info.UNMASKED_RENDERER_WEBGL)));
}

/** The part of a structure that some chains are, by their author's names; all of it if none is named. */
function chainsOf(names: readonly string[]): Expression {
  if (names.length === 0) return all.expression;
  const { struct, core } = MolScriptBuilder;
  const chain = struct.atomProperty.macromolecular.auth_asym_id();
  return struct.generator.atomGroups({ "chain-test": core.set.has([core.type.set([...names]), chain]) });
}

/** The mean of the heavy atoms; of all where there are no others. */
function heavyCentreOf({ atomicConformation: { x, y, z }, atomicHierarchy: { atoms } }: Model): readonly number[] {
  const rows = Array.from({ length: atoms._rowCount }, (_, row) => row);
  const heavy = rows.filter((row) => !["H", "D"].includes(atoms.type_symbol.value(row)));
  const counted = heavy.length > 0 ? heavy : rows;
  return [x, y, z].map((of) => counted.reduce((sum, row) => sum + (of[row] ?? 0), 0) / Math.max(1, counted.length));
}

/** A residue's number as its author has it, with the insertion code. */
function numberOf(place: StructureElement.Location): string {
  return `${Of.residue.auth_seq_id(place)}${Of.residue.pdbx_PDB_ins_code(place).trim()}`;
}

/** The numbers of a chain's residues as masks count them. */
function residuesOfChain(structure: Structure, chain: string): number[] {
  const loci = StructureElement.Loci.fromQuery(structure, Queries.generators.atoms({
    chainTest: ({ element }) => Of.chain.auth_asym_id(element) === chain,
  }));
  const residues = new Set<number>();
  StructureElement.Loci.forEachLocation(loci, (place) => void residues.add(Of.residue.label_seq_id(place)));
  return [...residues];
}

function placed(data: Mat4) {
  return { transform: { name: "matrix", params: { data, transpose: false } } } as const;
}

function spacegroupOf({ lengths, cosines: [alpha, beta, gamma] }: Cell): Spacegroup {
  const angles = Vec3.create(Math.acos(alpha), Math.acos(beta), Math.acos(gamma));
  return Spacegroup.create(SpacegroupCell.create("P 1", Vec3.create(...lengths), angles));
}

function cellOf({ size: [a = 0, b = 0, c = 0], anglesInRadians: [alpha = 0, beta = 0, gamma = 0] }: SpacegroupCell): Cell {
  return { lengths: [a, b, c], cosines: [Math.cos(alpha), Math.cos(beta), Math.cos(gamma)] };
}

/** The periodic box or the crystal of a model; the 1 Å cube stands for none. */
function boxOf(model: Model): Spacegroup | undefined {
  const found = ofFrames.get(model) ?? ModelSymmetry.Provider.get(model)?.spacegroup;
  return found && found.cell.volume > 1.5 ? found : undefined;
}

function edgesOf(model: Model): Mesh {
  const { cell, num } = boxOf(model) ?? Spacegroup.ZeroP1;
  const middle = Vec3.transformMat4(Vec3(), Model.getCenter(model), cell.toFractional);
  // A box has no origin, and is drawn around its molecules; the cell of a crystal has one.
  if (num !== 1) Vec3.addScalar(middle, Vec3.floor(middle, middle), 0.5);
  return edgesOfCell(cell, middle);
}

/** `middle` in fractions of the cell's vectors. */
function edgesOfCell(cell: SpacegroupCell, middle: Vec3): Mesh {
  const cage = transformCage(cloneCage(BoxCage()), Mat4.fromTranslation(Mat4(), middle));
  const state = MeshBuilder.createState(256, 128);
  state.currentGroup = 0;
  MeshBuilder.addCage(state, cell.fromFractional, cage, Math.cbrt(cell.volume) / 180, 2, 12);
  const mesh = MeshBuilder.getMesh(state);
  const { radius } = Sphere3D.fromDimensionsAndTransform(Sphere3D(), Vec3.unit, cell.fromFractional);
  mesh.setBoundingSphere(Sphere3D.create(Vec3.transformMat4(Vec3(), middle, cell.fromFractional), radius));
  return mesh;
}

/** The atoms of a model by the numbers that they have in its file. */
function atomsOf(model: Model): Atoms {
  const { atomicConformation: { atomId, x, y, z }, atomicHierarchy: { atoms } } = model;
  const rows = new Map<number, number>();
  for (let row = 0; row < atoms._rowCount; row++) rows.set(atomId.value(row), row);
  const box = boxOf(model)?.cell;
  return {
    place: (atom) => {
      const row = rows.get(atom);
      return row === undefined ? undefined : [x[row] ?? NaN, y[row] ?? NaN, z[row] ?? NaN];
    },
    mass: (atom) => AtomWeight(atoms.type_symbol.value(rows.get(atom) ?? 0)),
    nearest: nearestIn(box && cellOf(box)),
  };
}

function edgesOfPlan({ vectors, middle }: BoxPlan): Mesh {
  const [a, b, c] = vectors.map((vector) => Vec3.create(...vector)) as [Vec3, Vec3, Vec3];
  const cell = SpacegroupCell.create("P 1", Vec3.create(Vec3.magnitude(a), Vec3.magnitude(b), Vec3.magnitude(c)),
    Vec3.create(Vec3.angle(b, c), Vec3.angle(a, c), Vec3.angle(a, b)));
  return edgesOfCell(cell, Vec3.transformMat4(Vec3(), Vec3.create(...middle), cell.toFractional));
}

function dashesOf(lines: readonly Line[]): Mesh {
  const state = MeshBuilder.createState(1024, 512);
  state.currentGroup = 0;
  for (const line of lines) {
    const [from, to] = [Vec3.create(...line.from), Vec3.create(...line.to)];
    const dashes = Math.max(2, Math.round(lengthOf(line) / DASH));
    addFixedCountDashedCylinder(state, from, to, 1, dashes, false, { radiusTop: 0.1, radiusBottom: 0.1 });
  }
  return MeshBuilder.getMesh(state);
}

function centreOf({ x, y, z }: Frame): Vec3 {
  const mean = (values: Float32Array) => values.reduce((sum, value) => sum + value, 0) / values.length;
  return Vec3.create(mean(x), mean(y), mean(z));
}

/** Whether a ribbon shows more than the atoms would, or the atoms are too many to show. */
function hasRibbon({ polymerResidueCount, elementCount }: Structure): boolean {
  return polymerResidueCount >= SHORTEST_RIBBON || elementCount > MOST_BALLS;
}
