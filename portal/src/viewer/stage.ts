//! The only file that knows Mol*: a canvas with a structure, and what is pointed at.
import { type Structure, StructureElement, StructureProperties as Of } from "molstar/lib/mol-model/structure.js";
import { PluginContext } from "molstar/lib/mol-plugin/context.js";
import { DefaultPluginSpec } from "molstar/lib/mol-plugin/spec.js";
import type { StaticStructureComponentType } from "molstar/lib/mol-plugin-state/helpers/structure-component.js";
import type { StructureRepresentationBuiltInProps } from "molstar/lib/mol-plugin-state/helpers/structure-representation-params.js";
import { Color } from "molstar/lib/mol-util/color/index.js";

/** Formats that a structure can be shown from, as the service names them, with Mol*'s names. */
const FORMATS = { pdb: "pdb", cif: "mmcif", mmcif: "mmcif", sdf: "sdf", mol: "mol", mol2: "mol2" } as const;
export type Format = keyof typeof FORMATS;

/** What a structure has. */
export type Shown = { atoms: number; hasWater: boolean };

/** An atom that was clicked at; its chain and residue as the file has them. */
export type Picked = { atom: string; residueName: string; residue: number; chain: string };

/** With fewer residues a ribbon shows less than the atoms do. */
const SHORTEST_RIBBON = 8;

const BALLS: StructureRepresentationBuiltInProps = { type: "ball-and-stick", color: "element-symbol" };
const DRESS: [StaticStructureComponentType, StructureRepresentationBuiltInProps][] = [
  ["ligand", BALLS],
  ["non-standard", BALLS],
  ["branched", BALLS],
  ["lipid", BALLS],
  ["ion", { type: "spacefill", color: "element-symbol", typeParams: { sizeFactor: 0.5 } }],
];
/** Ball and stick of a whole box takes minutes where there is no graphics card. */
const POINTS: StructureRepresentationBuiltInProps = { type: "point", color: "element-symbol" };

export class Stage {
  readonly #plugin: PluginContext;
  readonly #scheme = matchMedia("(prefers-color-scheme: dark)");
  #drawWater: (isOn: boolean) => Promise<void> = async () => undefined;

  private constructor(plugin: PluginContext) {
    this.#plugin = plugin;
    this.#scheme.addEventListener("change", this.#colour);
    this.#colour();
  }

  /** A canvas that fills `target`; rejects when the browser has no WebGL. */
  static async mount(target: HTMLElement): Promise<Stage> {
    const plugin = new PluginContext(DefaultPluginSpec());
    await plugin.init();
    if (await plugin.mountAsync(target)) return new Stage(plugin);
    plugin.dispose();
    throw new Error("This browser has no WebGL, which drawing molecules needs. Everything else works.");
  }

  /** Shows the first model of a structure in the place of what was there. */
  async show(text: string, format: Format): Promise<Shown> {
    const { structure: builder, data } = this.#plugin.builders;
    await this.#plugin.clear();
    const trajectory = await builder.parseTrajectory(await data.rawData({ data: text }), FORMATS[format]);
    const made = await builder.createStructure(await builder.createModel(trajectory));
    const atoms = made.obj?.data.elementCount ?? 0;
    if (atoms === 0) throw new Error("There is no atom in this file that could be shown.");
    const polymer = await builder.tryCreateComponentStatic(made, "polymer");
    if (polymer) await builder.representation.addRepresentation(polymer, ribbonOrAtoms(polymer.obj?.data));
    for (const [kind, dress] of DRESS) {
      const part = await builder.tryCreateComponentStatic(made, kind);
      if (part) await builder.representation.addRepresentation(part, dress);
    }
    const water = await builder.tryCreateComponentStatic(made, "water");
    this.#drawWater = async (isOn) => {
      if (water && isOn) await builder.representation.addRepresentation(water, POINTS, { tag: "water-points" });
      if (water && !isOn) {
        const drawn = this.#plugin.state.data.selectQ((query) => query.byRef(water.ref).children().withTag("water-points"));
        const change = this.#plugin.build();
        for (const { transform } of drawn) change.delete(transform.ref);
        await change.commit();
      }
    };
    this.#plugin.managers.camera.reset(undefined, 0);
    return { atoms, hasWater: water !== undefined };
  }

  water(isOn: boolean): Promise<void> {
    return this.#drawWater(isOn);
  }

  /** Reports what is clicked at; nothing when it is the background. */
  onPick(picked: (picked: Picked | undefined) => void): void {
    this.#plugin.behaviors.interaction.click.subscribe(({ current: { loci } }) => {
      const place = StructureElement.Loci.is(loci) ? StructureElement.Loci.getFirstLocation(loci) : undefined;
      picked(place && {
        atom: Of.atom.auth_atom_id(place),
        residueName: Of.atom.auth_comp_id(place),
        residue: Of.residue.auth_seq_id(place),
        chain: Of.chain.auth_asym_id(place),
      });
    });
  }

  /** Back to the whole of it. */
  reset(): void {
    this.#plugin.managers.camera.reset();
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
    this.#plugin.canvas3d?.setProps({
      renderer: { backgroundColor },
      camera: { helper: { axes: { name: "off", params: {} } } },
    });
  }
}

function ribbonOrAtoms(polymer: Structure | undefined): StructureRepresentationBuiltInProps {
  const isLong = (polymer?.polymerResidueCount ?? 0) >= SHORTEST_RIBBON;
  return isLong ? { type: "cartoon", color: "chain-id" } : BALLS;
}
