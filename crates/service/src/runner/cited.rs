//! What to cite for a simulation: what its stages were really run with, not what was asked for.

use serde::Deserialize;
use serde_json::Value;

use crate::plan::simulate::GROMACS;

const OPENMM: &str = "Simulation engine OpenMM 8: P. Eastman et al., J. Phys. Chem. B 128, 109 \
                      (2024), doi:10.1021/acs.jpcb.3c06662";
const EWALD: &str = "Electrostatics by particle mesh Ewald: U. Essmann et al., J. Chem. Phys. \
                     103, 8577 (1995), doi:10.1063/1.470117";
const LANGEVIN: &str = "Langevin middle integrator: Z. Zhang et al., J. Phys. Chem. A 123, 6056 \
                        (2019), doi:10.1021/acs.jpca.9b02771";
const SETTLE: &str = "Rigid water by SETTLE: S. Miyamoto and P. A. Kollman, J. Comput. Chem. 13, \
                      952 (1992), doi:10.1002/jcc.540130805";
const CCMA: &str = "Rigid bonds by CCMA: P. Eastman and V. S. Pande, J. Chem. Theory Comput. 6, \
                    434 (2010), doi:10.1021/ct900463w";
const BAROSTAT: &str = "Monte Carlo barostat: K.-H. Chow and D. M. Ferguson, Comput. Phys. \
                        Commun. 91, 283 (1995), doi:10.1016/0010-4655(95)00059-O; J. Åqvist et \
                        al., Chem. Phys. Lett. 384, 288 (2004), doi:10.1016/j.cplett.2003.12.039";
const GROMACS_ENGINE: &str = "Simulation engine GROMACS: M. J. Abraham et al., SoftwareX 1-2, 19 \
                              (2015), doi:10.1016/j.softx.2015.06.001";
const STOCHASTIC: &str = "Stochastic dynamics: N. Goga et al., J. Chem. Theory Comput. 8, 3637 \
                          (2012), doi:10.1021/ct3000876";
const LINCS: &str = "Rigid bonds by LINCS: B. Hess, J. Chem. Theory Comput. 4, 116 (2008), \
                     doi:10.1021/ct700200b";
const C_RESCALE: &str = "Stochastic cell rescaling: M. Bernetti and G. Bussi, J. Chem. Phys. 153, \
                         114107 (2020), doi:10.1063/5.0020514";
const HEAVY_HYDROGENS: &str = "Heavy hydrogens: C. W. Hopkins et al., J. Chem. Theory Comput. 11, \
                               1864 (2015), doi:10.1021/ct5010406";
const SHAKE: &str = "Rigid bonds by SHAKE: J.-P. Ryckaert et al., J. Comput. Phys. 23, 327 \
                     (1977), doi:10.1016/0021-9991(77)90098-5";

/// How a stage was run, as far as something is cited for it: `NAME.method.json`, a stranger's.
#[derive(Deserialize)]
struct Method {
    engine: Named,
    integrator: Integrator,
    barostat: Option<Named>,
    constraints: Constraints,
    nonbonded: Option<Value>,
    hydrogen_mass_da: Option<f64>,
    /// Of its first steps, where they were run otherwise.
    #[serde(default)]
    before: Vec<Self>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
struct Integrator {
    name: String,
    /// Absent where there is no thermostat.
    friction_per_ps: Option<f64>,
}

#[derive(Deserialize)]
struct Constraints {
    algorithms: Vec<String>,
}

impl Method {
    fn is_held_by(&self, algorithm: &str) -> bool {
        self.constraints.algorithms.iter().any(|name| name == algorithm)
    }

    fn has_barostat(&self, names: &[&str]) -> bool {
        self.barostat.as_ref().is_some_and(|barostat| names.contains(&barostat.name.as_str()))
    }

    fn has_thermostat(&self, name: &str) -> bool {
        self.integrator.friction_per_ps.is_some() && self.integrator.name == name
    }
}

/// What is cited for a simulation that has a stage like this.
type Cited = (&'static str, fn(&Method) -> bool);

const CITED: [Cited; 12] = [
    (GROMACS_ENGINE, |stage| stage.engine.name == GROMACS),
    // It prepares and minimises whatever runs the stages.
    (OPENMM, |_| true),
    (EWALD, |stage| stage.nonbonded.is_some()),
    (LANGEVIN, |stage| stage.has_thermostat("LangevinMiddleIntegrator")),
    (STOCHASTIC, |stage| stage.has_thermostat("sd")),
    (SETTLE, |stage| stage.is_held_by("SETTLE")),
    (SHAKE, |stage| stage.is_held_by("SHAKE")),
    (CCMA, |stage| stage.is_held_by("CCMA")),
    (LINCS, |stage| stage.is_held_by("LINCS")),
    (BAROSTAT, |stage| stage.has_barostat(&["MonteCarloBarostat", "MonteCarloMembraneBarostat"])),
    (C_RESCALE, |stage| stage.has_barostat(&["C-rescale"])),
    (HEAVY_HYDROGENS, |stage| stage.hydrogen_mass_da.is_some()),
];

/// What to cite for a simulation whose stages were run like this; the system has its own. Of a
/// stage that was not run nothing is cited.
pub(super) fn cited(methods: &[Value]) -> Vec<&'static str> {
    let read: Vec<Method> = methods.iter().filter_map(|it| Method::deserialize(it).ok()).collect();
    let stages: Vec<&Method> =
        read.iter().flat_map(|stage| stage.before.iter().chain([stage])).collect();
    let is_cited = |(_, is_for): &&Cited| stages.iter().any(|stage| is_for(stage));
    CITED.iter().filter(is_cited).map(|(citation, _)| *citation).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stage(engine: &str, integrator: Value, barostat: Value, algorithms: &[&str]) -> Value {
        json!({
            "engine": {"name": engine},
            "integrator": integrator,
            "barostat": barostat,
            "constraints": {"algorithms": algorithms},
            "nonbonded": {"method": "PME"},
            "hydrogen_mass_da": null,
        })
    }

    #[test]
    fn what_no_stage_was_run_with_is_not_cited() {
        let friction = json!({"name": "sd", "friction_per_ps": 1.0});
        let water = stage("gromacs", friction, Value::Null, &["SETTLE"]);
        assert_eq!(cited(&[water]), [GROMACS_ENGINE, OPENMM, EWALD, STOCHASTIC, SETTLE]);
        let free = json!({"name": "LangevinMiddleIntegrator", "friction_per_ps": null});
        let free = stage("openmm", free, Value::Null, &["CCMA"]);
        assert_eq!(cited(&[free]), [OPENMM, EWALD, CCMA]);
        assert_eq!(cited(&[]), <[&str; 0]>::default());
        assert_eq!(cited(&[json!({"engine": "mine"}), json!(7)]), <[&str; 0]>::default());
    }

    #[test]
    fn what_ran_the_first_steps_of_a_stage_is_cited_too() {
        let before = json!({
            "engine": {"name": "gromacs"},
            "integrator": {"name": "sd", "friction_per_ps": 1.0},
            "barostat": {"name": "C-rescale"},
            "constraints": {"algorithms": ["SETTLE"]},
            "steps": [0, 100],
        });
        let free = json!({"name": "LangevinMiddleIntegrator", "friction_per_ps": null});
        let mut last = stage("openmm", free, Value::Null, &["SETTLE"]);
        last["before"] = json!([before]);
        assert_eq!(cited(&[last]), [GROMACS_ENGINE, OPENMM, EWALD, STOCHASTIC, SETTLE, C_RESCALE]);
    }

    #[test]
    fn stages_of_both_engines_have_the_citations_of_both() {
        let friction = json!({"name": "md", "friction_per_ps": null});
        let first = stage("gromacs", friction, Value::Null, &["SETTLE", "LINCS"]);
        let friction = json!({"name": "LangevinMiddleIntegrator", "friction_per_ps": 1.0});
        let barostat = json!({"name": "MonteCarloMembraneBarostat"});
        let mut second = stage("openmm", friction, barostat, &["SETTLE", "CCMA"]);
        second["hydrogen_mass_da"] = json!(3.0);
        assert_eq!(
            cited(&[first, second]),
            [
                GROMACS_ENGINE,
                OPENMM,
                EWALD,
                LANGEVIN,
                SETTLE,
                CCMA,
                LINCS,
                BAROSTAT,
                HEAVY_HYDROGENS,
            ]
        );
    }
}
